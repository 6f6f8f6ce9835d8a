"""Everything that checks the whole: see the README of each folder."""
