"""Links the events of a child into a chain, and the ends of children into a running root.

A chain shows an event that was altered, moved or left out. It shows neither a tail that was cut off nor a child that
was removed as a whole: for that the last link of every closed child goes into the running root of its instance, which
is signed and kept in a second place (DESIGN section 10).
"""

from hashlib import sha256
from typing import Final

import msgspec

NOTHING: Final = "0" * 64
"""Root of an instance that has not closed any child."""


def opening_link(fields: tuple[object, ...]) -> str:
    """Return what the first event of a child links to: the hash of its row, contract included; 64 hex digits."""
    return sha256(b"child\x1f" + msgspec.json.encode(fields)).hexdigest()


def event_link(previous: str, contents: tuple[object, ...]) -> str:
    """Return the link of an event: the hash of its contents and of the link before it; 64 hex digits.

    Args:
        previous: the link before it.
        contents: child id, sequence, name, time, actor, summary and details; `run_id` is in the row that the chain
            begins at.
    """
    return sha256(b"event\x1f" + msgspec.json.encode((previous, *contents))).hexdigest()


def closed_root(previous: str, child_id: str, last_link: str) -> str:
    """Return the running root after one more child was closed; 64 hex digits.

    Plain bytes on purpose, so that a database can compute it, too: SHA-256 over `root`, the root before, the child's id
    and its last link, each after a unit separator.
    """
    return sha256("\x1f".join(("root", previous, child_id, last_link)).encode()).hexdigest()
