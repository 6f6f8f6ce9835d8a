"""Generated from the protos of the same path; do not edit."""
