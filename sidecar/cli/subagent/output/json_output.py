"""Messages about rollouts for programs: names as in the proto, and values of enums as operators write them."""

from collections.abc import Callable
from typing import Any, TypeAlias

from google.protobuf.message import Message

from sidecar.cli.record.turn_views import as_object

Spell: TypeAlias = Callable[[str, str], str]
"""Spells a value anew; given it, and what all names of its enum begin with."""


def message_to_json(message: Message) -> dict[str, Any]:
    """Return a message for programs; `LIFECYCLE_STATE_ROLLBACK` is `rollback`, and so with every enum."""
    return _spelled(as_object(message), message.DESCRIPTOR, lambda value, prefix: value.removeprefix(prefix).lower())


def message_from_json(said: dict[str, Any], message: Message) -> dict[str, Any]:
    """Return the JSON form of protobuf for what `message_to_json` made; text in that form stays as it is."""

    def whole(value: str, prefix: str) -> str:
        return value if value.startswith(prefix) else f"{prefix}{value.upper()}"

    return _spelled(said, message.DESCRIPTOR, whole)


def _spelled(made: dict[str, Any], descriptor: Any, spell: Spell) -> dict[str, Any]:
    return made | {
        field.name: _value(made[field.name], field.enum_type, field.message_type, spell)
        for field in descriptor.fields
        if field.name in made
    }


def _value(value: Any, enum: Any, inner: Any, spell: Spell) -> Any:
    if isinstance(value, list):
        return [_value(each, enum, inner, spell) for each in value]
    if enum is not None and isinstance(value, str):
        return spell(value, enum.values_by_number[0].name.removesuffix("UNSPECIFIED"))
    if inner is not None and isinstance(value, dict):
        return _spelled(value, inner, spell)
    return value
