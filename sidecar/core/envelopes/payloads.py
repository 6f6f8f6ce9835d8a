"""Parses a payload after the envelope has been found to be for the right user."""

import math
from typing import Any, Final

import msgspec

from sidecar.core.decoding import from_json_by_pairs, from_utf8
from sidecar.core.envelopes.typing_registry import PayloadSchema


class _Ambiguous(ValueError):
    """The payload means different things to different parsers."""


def _members_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Ambiguous
    return members


_CONTAINERS: Final = (dict, list)


def payload_text(payload: msgspec.Raw, schema: PayloadSchema, max_depth: int) -> str | None:
    """Return the payload's JSON text, unchanged, if it is unambiguous and fits `schema`; else None.

    Refused: duplicate keys at any depth, infinite numbers, integers of thousands of digits, more than `max_depth`
    levels. `scan` has already refused what is no JSON at all, NaN and half surrogate pairs among it.
    """
    text = from_utf8(bytes(payload))
    try:
        value = from_json_by_pairs(text, _members_once)
        return text if _is_plain(value, max_depth) and schema.accepts(value) else None
    except ValueError:
        return None


def _is_plain(value: Any, max_depth: int) -> bool:
    """Return whether every parser would read `value` the same, within `max_depth` levels.

    Most values are in large arrays of one kind, so kinds are collected before single values are looked at.
    """
    level: list[Any] = [[value]]
    for _ in range(max_depth + 1):
        inner: list[Any] = []
        for each in level:
            if not each:
                continue
            parts = each.values() if isinstance(each, dict) else each
            kinds = set(map(type, parts))
            if float in kinds and not all(map(math.isfinite, [part for part in parts if type(part) is float])):
                return False
            if dict in kinds or list in kinds:
                inner += [part for part in parts if type(part) in _CONTAINERS]
        if not inner:
            return True
        level = inner
    return False
