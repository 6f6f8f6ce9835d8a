"""The steps of the schema, one SQL file each."""
