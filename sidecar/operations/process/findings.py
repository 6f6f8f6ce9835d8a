"""The findings of an examination of a deployment: one line for each checked item."""

from enum import StrEnum, unique

from msgspec import Struct


@unique
class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    """The configuration works, but is probably not what its author meant."""
    ERROR = "error"
    """The sidecar does not start, or serves no user with it."""


class Finding(Struct, frozen=True):
    """The result of one check.

    Attributes:
        area: one word for what was examined, such as `definitions`.
        about: the examined item: a path, an address, a setting; empty for all items.
        text: the result.
        remedy: what to do about it; empty if the item is in order.
    """

    level: Level
    area: str
    about: str
    text: str
    remedy: str = ""


def ok(area: str, about: str, text: str) -> Finding:
    """Return a finding for an item that is in order."""
    return Finding(Level.OK, area, about, text)


def warning(area: str, about: str, text: str, remedy: str) -> Finding:
    """Return a finding for an item that is probably a mistake."""
    return Finding(Level.WARNING, area, about, text, remedy)


def error(area: str, about: str, text: str, remedy: str) -> Finding:
    """Return a finding for an item that prevents the sidecar from starting or from serving."""
    return Finding(Level.ERROR, area, about, text, remedy)
