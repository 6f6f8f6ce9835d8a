"""What tests are made of: marks, guards and fakes. No logic of the sidecar."""
