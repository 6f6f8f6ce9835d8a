"""Bad configurations: each is the good one with something changed. What `sidecar validate` prints is `expected.txt`."""
