"""What compose.yaml needs beside the sidecar."""
