"""Parses a payload after the checks have shown that the envelope is for the right user.

The order matters: a payload of another user must not even be parsed.
"""

import math
from typing import Any, Final

import msgspec

from sidecar.core.decoding import from_json_by_pairs, from_utf8
from sidecar.core.envelopes.typing_registry import PayloadSchema


class _Ambiguous(ValueError):
    """Different parsers would read the payload differently."""


def _members_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Ambiguous
    return members


_CONTAINERS: Final = (dict, list)


def payload_text(payload: msgspec.Raw, schema: PayloadSchema, max_depth: int) -> str | None:
    """Return the payload's JSON text, unchanged, if it is unambiguous and fits `schema`; otherwise None.

    Refused: duplicate keys at any depth, infinite numbers, integers of thousands of digits, more than `max_depth`
    levels. `scan` has already refused invalid JSON, including NaN and lone surrogates.
    """
    text = from_utf8(bytes(payload))
    try:
        value = from_json_by_pairs(text, _members_once)
        # The text itself and not `value` written again: the sub-agent gets the bytes that were signed.
        return text if _is_plain(value, max_depth) and schema.accepts(value) else None
    # Covers `_Ambiguous` and `DecodeError`, also for integers with more digits than Python converts.
    except ValueError:
        return None


def _is_plain(value: Any, max_depth: int) -> bool:
    """Return whether every parser reads `value` in the same way, within `max_depth` levels.

    Most values are in large arrays of one type, so the types are collected before single values are checked.
    """
    level: list[Any] = [[value]]
    # Level by level and not recursively: the depth of a payload is the service's choice, and recursion would exhaust
    # the stack.
    for _ in range(max_depth + 1):
        inner: list[Any] = []
        for each in level:
            if not each:
                continue
            parts = each.values() if isinstance(each, dict) else each
            kinds = set(map(type, parts))
            # `1e999` is valid JSON, and Python reads it as infinity; other parsers refuse it or read another number.
            if float in kinds and not all(map(math.isfinite, [part for part in parts if type(part) is float])):
                return False
            if dict in kinds or list in kinds:
                inner += [part for part in parts if type(part) in _CONTAINERS]
        if not inner:
            return True
        level = inner
    return False
