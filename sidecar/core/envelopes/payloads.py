"""Opening a payload, once it is known to be for the right user."""

import json
import math
from typing import Any, Final

import msgspec

from sidecar.core.envelopes.typing_registry import PayloadSchema


class _Ambiguous(ValueError):
    """The payload means different things to different parsers."""


def _members_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Ambiguous
    return members


_INSIDE: Final = json.JSONDecoder(object_pairs_hook=_members_once)


def payload_text(payload: msgspec.Raw, schema: PayloadSchema, max_depth: int) -> str | None:
    """Return the payload's JSON text, unchanged, if it is unambiguous and fits `schema`; else None.

    Refused: duplicate keys at any depth, infinite numbers, integers of thousands of digits, more than `max_depth`
    levels. `scan` has already refused what is no JSON at all, NaN and half surrogate pairs among it.
    """
    text = bytes(payload).decode("utf-8")
    try:
        value = _INSIDE.decode(text)
        return text if _is_plain(value, max_depth) and schema.accepts(value) else None
    except (ValueError, RecursionError):
        return None


def _is_plain(value: Any, max_depth: int) -> bool:
    """Return whether every parser would read `value` the same, within `max_depth` levels."""
    level = [value]
    depth = 0
    while level:
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner.extend(each.values())
            elif isinstance(each, list):
                inner.extend(each)
            elif isinstance(each, float) and not math.isfinite(each):
                return False
        if any(isinstance(each, dict | list) for each in level):
            depth += 1
        if depth > max_depth:
            return False
        level = inner
    return True
