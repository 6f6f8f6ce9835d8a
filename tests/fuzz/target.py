"""What a fuzz target is: a parser, what must hold for any bytes, and inputs to begin with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


class PropertyBroken(AssertionError):
    """A parser has answered, but the answer breaks a promise; the text says which."""


@dataclass(frozen=True, slots=True)
class Target:
    """One parser.

    Attributes:
        name: of the folder of its corpus, too.
        run: takes any bytes; returns if they were parsed or refused as documented, and raises otherwise.
        seeds: inputs that are parsed, so that mutations begin behind the first check.
        words: what the grammar is made of; mutations splice these in.
    """

    name: str
    run: Callable[[bytes], None]
    seeds: Sequence[bytes]
    words: Sequence[bytes] = ()


def holds(promise: bool, text: str) -> None:
    """Raise `PropertyBroken` unless a promise holds."""
    if not promise:
        raise PropertyBroken(text)


def as_text(data: bytes) -> str:
    """Return bytes as the text that gRPC or a file would give: what is no UTF-8 becomes half a surrogate pair."""
    return data.decode("utf-8", "surrogateescape")
