"""Facts from records: tests state what is on record event by event, and it becomes the facts that say so."""
