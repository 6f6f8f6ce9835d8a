"""Values of proto enums as words, so that a test reads like the record."""

from collections.abc import Iterable
from typing import Any

from google.protobuf.message import Message

from sidecar.cli.subagent.output.gate_words import gate_words


def word(message: Message, field: str) -> Any:
    """Return the value of an enum field without its prefix, in lower case; of a repeated field, a list of them."""
    enum: Any = message.DESCRIPTOR.fields_by_name[field].enum_type
    prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")

    def spelled(number: int) -> str:
        name: str = enum.values_by_number[number].name
        return name.removeprefix(prefix).lower()

    value = getattr(message, field)
    return spelled(value) if isinstance(value, int) else [spelled(each) for each in value]


def gate_lines(result: Any) -> list[str]:
    """Return what the gates of a step answered, a line for each gate."""
    return lines_of(result.gate_answers)


def lines_of(answers: Iterable[Any]) -> list[str]:
    """Return a line for each answer of a gate."""
    return [gate_words(each) for each in answers]
