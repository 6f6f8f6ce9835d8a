"""gRPC in: a servicer for each service, one wrapper around all of them, and the translation of messages."""
