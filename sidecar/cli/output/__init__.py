"""Lines and timelines for terminals."""
