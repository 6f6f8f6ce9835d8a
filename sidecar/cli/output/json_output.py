"""Converts protobuf messages to JSON for programs: field names as in the proto, enum values as lower-case words."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from google.protobuf.message import Message

Spell: TypeAlias = Callable[[str, str], str]
"""Returns how an enum value is spelled; takes its name and the prefix that all names of its enum have."""

AS_REASON: Final = "ERROR_REASON_"
"""Reasons keep their capitals, as in logs, metrics and `google.rpc.ErrorInfo`."""


def enum_word(enum: Any, number: int) -> str:
    """Return a value of a proto enum as operators write it.

    A number from a newer sidecar has no name here and is shown as such: `unknown (7)`.
    """
    # `enum.Name` would raise, and an older command must show the answers of a newer sidecar.
    if number not in enum.values():
        return f"unknown ({number})"
    return _word(enum.Name(number), _prefix(enum.DESCRIPTOR))


def message_to_json(message: "Message") -> dict[str, Any]:
    """Return a message for programs. Enum values lose their prefix: `LIFECYCLE_STATE_ROLLBACK` is `rollback`.

    Fields that hold JSON text appear as JSON, under their name without `_json`. An enum value that this version does
    not know appears as its number.
    """
    from google.protobuf.json_format import MessageToDict  # noqa: PLC0415  a screen needs no JSON

    # With empty fields, so that a program finds the same keys in each row.
    values = MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    expanded: dict[str, Any] = _expanded(_spelled(values, message.DESCRIPTOR, _word))
    return expanded


def message_from_json(values: dict[str, Any], message: "Message") -> dict[str, Any]:
    """Return the protobuf JSON form of an output of `message_to_json`; text in that form does not change."""

    def full_name(value: str, prefix: str) -> str:
        return value if value.startswith(prefix) else f"{prefix}{value.upper()}"

    return _spelled(values, message.DESCRIPTOR, full_name)


def _word(value: str, prefix: str) -> str:
    word = value.removeprefix(prefix)
    return word if prefix == AS_REASON else word.lower()


def _prefix(descriptor: Any) -> str:
    # By convention, the value 0 of every enum is `<PREFIX>UNSPECIFIED`.
    prefix: str = descriptor.values_by_number[0].name.removesuffix("UNSPECIFIED")
    return prefix


def _spelled(values: dict[str, Any], descriptor: Any, spell: Spell) -> dict[str, Any]:
    """Return the fields of a message with every enum value spelled by `spell`, also in messages inside it."""
    return values | {
        field.name: _value(values[field.name], field.enum_type, field.message_type, spell)
        for field in descriptor.fields
        if field.name in values
    }


def _value(value: Any, enum: Any, inner: Any, spell: Spell) -> Any:
    if isinstance(value, list):
        return [_value(each, enum, inner, spell) for each in value]
    # `MessageToDict` writes a value without a name as a number, which is kept.
    if enum is not None and isinstance(value, str):
        return spell(value, _prefix(enum))
    if inner is not None and isinstance(value, dict):
        return _spelled(value, inner, spell)
    return value


def _expanded(value: Any) -> Any:
    """Return a value with every JSON text in it decoded, as `message_to_json` describes."""
    if isinstance(value, list):
        return [_expanded(each) for each in value]
    if not isinstance(value, dict):
        return value
    expanded: dict[str, Any] = {}
    for name, each in value.items():
        if name.endswith("_json") and isinstance(each, str):
            expanded[name.removesuffix("_json")] = _decoded(each)
        else:
            expanded[name] = _expanded(each)
    return expanded


def _decoded(text: str) -> Any:
    """Return the value of a JSON text; None if it was omitted. Text that is not JSON is returned unchanged."""
    from sidecar.core.decoding import DecodeError, from_json  # noqa: PLC0415  few messages have JSON texts

    try:
        return from_json(text) if text else None
    except DecodeError:
        return text
