"""What a run leaves behind: text, an HTML page, HDR histogram logs."""
