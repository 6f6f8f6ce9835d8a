"""Lists the top-level members of an envelope without parsing their values.

Parsers differ in which of two equal keys they keep, so a producer could name one principal to us and another to a
parser that keeps the other key. Members are therefore listed in order, including duplicates, and values stay raw bytes.
"""

import msgspec

from sidecar.core.decoding import DecodeError, JsonDecoder, from_json, from_utf8

Members = tuple[tuple[str, msgspec.Raw], ...]


class _Name:
    """A member's name as a dictionary key that equals no other key, so that duplicates are kept."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def _name_of(_kind: type, text: str) -> _Name:
    return _Name(text)


# Decodes only the outermost object: its values stay raw.
_OUTSIDE = JsonDecoder(dict[_Name, msgspec.Raw], _name_of)


def scan(body: bytes) -> Members | None:
    """Return the members of a JSON object in their order; None if the body is not exactly one object.

    Checked: UTF-8, no byte order mark, JSON syntax throughout (no NaN), no data after the object.
    """
    try:
        # The decoder checks the syntax of raw values, but not the encoding of the strings in them. So the encoding of
        # the whole body is checked here.
        from_utf8(body)
        members = _OUTSIDE.decode(body)
    except DecodeError:
        return None
    return tuple((name.text, value) for name, value in members.items())


def only(members: Members, name: str) -> msgspec.Raw | None:
    """Return the value of the member `name`; None unless it occurs exactly once."""
    found = [value for each, value in members if each == name]
    return found[0] if len(found) == 1 else None


def has_duplicates(members: Members) -> bool:
    """Return whether two members have the same name."""
    return len({name for name, _ in members}) != len(members)


def text_of(value: msgspec.Raw | None) -> str | None:
    """Return the value if it is a string, otherwise None."""
    if value is None:
        return None
    try:
        return from_json(value, str)
    except DecodeError:
        return None
