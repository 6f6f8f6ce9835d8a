"""What the SDK talks to in its tests: scripted counterparts behind real sockets."""
