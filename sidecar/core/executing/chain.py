"""Links the events of a child into a chain, as they are derived from facts. Facts have separate links."""

from hashlib import sha256

import msgspec


def opening_link(fields: tuple[object, ...]) -> str:
    """Return the link before a child's first event: the hash of its row, contract included; 64 hex digits."""
    return sha256(b"child\x1f" + msgspec.json.encode(fields)).hexdigest()


def event_link(previous: str, contents: tuple[object, ...]) -> str:
    """Return the link of an event: the hash of its contents and of the previous link; 64 hex digits.

    Args:
        previous: the previous link.
        contents: child id, sequence, name, time, actor, summary and details; `run_id` is in the row at the beginning of
            the chain.
    """
    # The prefixes differ, so that no row of a child can have the hash of an event.
    return sha256(b"event\x1f" + msgspec.json.encode((previous, *contents))).hexdigest()
