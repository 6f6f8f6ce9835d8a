"""The session lane, as far as it needs no clock and no stream: what may be asked, and what may leave when."""
