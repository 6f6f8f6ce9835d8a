"""Connector `grpc` and the reference service over gRPC."""
