"""What a call of a tool does at its service, and hence whether it may be repeated."""

from enum import StrEnum, unique


@unique
class ToolOperation(StrEnum):
    """Declared by each tool; a tool that declares nothing is treated as an `EFFECT`, which is the safe reading."""

    READ = "read"
    """Changes nothing. May be repeated at any time, without a key."""
    IDEMPOTENT = "idempotent"
    """May change something, once: the service recognises a repetition by its key, or a repetition changes nothing."""
    EFFECT = "effect"
    """Changes something each time. Its key is on record before it is sent; nothing repeats it while its result is
    unknown."""
