"""HTTP/1.1 to addresses of the configuration, and answers of which no more is held than allowed."""
