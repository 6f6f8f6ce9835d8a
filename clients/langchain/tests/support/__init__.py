"""A scripted chat model, and conversations with it over real sockets."""
