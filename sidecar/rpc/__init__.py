"""The gRPC servers: a servicer for each service, one wrapper around all handlers, and the translation of messages."""
