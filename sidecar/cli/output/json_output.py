"""Converts protobuf messages to JSON for programs: field names as in the proto, enum values as lower-case words."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from google.protobuf.message import Message

Spell: TypeAlias = Callable[[str, str], str]
"""Returns the spelling of an enum value; takes the name and the prefix of all names of the enum."""

AS_REASON: Final = "ERROR_REASON_"
"""Reasons keep their capitals, as in logs, metrics and `google.rpc.ErrorInfo`."""


def enum_word(enum: Any, number: int) -> str:
    """Return a value of a proto enum as operators write it.

    A number from a newer sidecar has no name here and is shown as such: `unknown (7)`.
    """
    if number not in enum.values():
        return f"unknown ({number})"
    return _word(enum.Name(number), _prefix(enum.DESCRIPTOR))


def message_to_json(message: "Message") -> dict[str, Any]:
    """Return a message for programs. Enum values lose their prefix: `LIFECYCLE_STATE_ROLLBACK` is `rollback`.

    Fields that hold JSON text appear as JSON, under their name without `_json`. An enum value that this version does
    not know appears as its number.
    """
    from google.protobuf.json_format import MessageToDict  # noqa: PLC0415  a screen needs no JSON

    found = MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    opened: dict[str, Any] = _opened(_spelled(found, message.DESCRIPTOR, _word))
    return opened


def message_from_json(said: dict[str, Any], message: "Message") -> dict[str, Any]:
    """Return the protobuf JSON form of an output of `message_to_json`; text in that form does not change."""

    def whole(value: str, prefix: str) -> str:
        return value if value.startswith(prefix) else f"{prefix}{value.upper()}"

    return _spelled(said, message.DESCRIPTOR, whole)


def _word(value: str, prefix: str) -> str:
    word = value.removeprefix(prefix)
    return word if prefix == AS_REASON else word.lower()


def _prefix(descriptor: Any) -> str:
    prefix: str = descriptor.values_by_number[0].name.removesuffix("UNSPECIFIED")
    return prefix


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
        return spell(value, _prefix(enum))
    if inner is not None and isinstance(value, dict):
        return _spelled(value, inner, spell)
    return value


def _opened(value: Any) -> Any:
    if isinstance(value, list):
        return [_opened(each) for each in value]
    if not isinstance(value, dict):
        return value
    made: dict[str, Any] = {}
    for name, each in value.items():
        if name.endswith("_json") and isinstance(each, str):
            made[name.removesuffix("_json")] = _decoded(each)
        else:
            made[name] = _opened(each)
    return made


def _decoded(text: str) -> Any:
    """Return the value of a JSON text; None if it was omitted. Text that is not JSON is returned unchanged."""
    from sidecar.core.decoding import DecodeError, from_json  # noqa: PLC0415  the same holds

    try:
        return from_json(text) if text else None
    except DecodeError:
        return text
