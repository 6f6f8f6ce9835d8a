"""Saying what is missing: computed from tool messages, stated by the composing model, noted where it states nothing."""
