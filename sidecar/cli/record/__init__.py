"""The commands that show, verify, replay, back up and migrate the record."""
