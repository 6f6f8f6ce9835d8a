"""Converts rollout messages to JSON: field names as in the proto, enum values in lower case without their prefix."""

from collections.abc import Callable
from typing import Any, TypeAlias

from google.protobuf.message import Message

from sidecar.cli.record.turn_views import as_object

Spell: TypeAlias = Callable[[str, str], str]
"""Converts the name of an enum value, given the name and the common prefix of its enum."""


def message_to_json(message: Message) -> dict[str, Any]:
    """Return a message as JSON values; e.g. `LIFECYCLE_STATE_ROLLBACK` becomes `rollback`."""
    return _spelled(as_object(message), message.DESCRIPTOR, lambda value, prefix: value.removeprefix(prefix).lower())


def message_from_json(status: dict[str, Any], message: Message) -> dict[str, Any]:
    """Return protobuf's JSON form of the output of `message_to_json`. Full enum names are kept."""

    def whole(value: str, prefix: str) -> str:
        return value if value.startswith(prefix) else f"{prefix}{value.upper()}"

    return _spelled(status, message.DESCRIPTOR, whole)


def _spelled(values: dict[str, Any], descriptor: Any, spell: Spell) -> dict[str, Any]:
    return values | {
        field.name: _value(values[field.name], field.enum_type, field.message_type, spell)
        for field in descriptor.fields
        if field.name in values
    }


def _value(value: Any, enum: Any, inner: Any, spell: Spell) -> Any:
    if isinstance(value, list):
        return [_value(each, enum, inner, spell) for each in value]
    if enum is not None and isinstance(value, str):
        return spell(value, enum.values_by_number[0].name.removesuffix("UNSPECIFIED"))
    if inner is not None and isinstance(value, dict):
        return _spelled(value, inner, spell)
    return value
