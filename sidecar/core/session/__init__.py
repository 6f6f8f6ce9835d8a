"""The rules of the session lane that need no clock and no stream: what may be sent, and when."""
