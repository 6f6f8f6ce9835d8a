"""Lines of an export of the earlier system's history: one JSON object per message.

Fields that are not named here are ignored. `docs/history.md` shows the form.
"""

from datetime import datetime
from enum import StrEnum, unique
from typing import Final, Literal

import msgspec

from sidecar.core.decoding import DecodeError, JsonDecoder, SchemaMismatch, from_utf8
from sidecar.core.identifiers import problem_with_run_side_id


@unique
class ImportProblem(StrEnum):
    """The possible problems of a line or a turn. `docs/history.md` explains each."""

    UNREADABLE = "unreadable_line"
    TURN_BROKEN = "turn_has_unreadable_line"
    TURN_AGAIN = "turn_again"
    OUT_OF_ORDER = "out_of_order"
    UNKNOWN_LABEL = "unknown_label"
    SEVERAL_LABELS = "several_labels"
    TAG_CONTRADICTED = "tag_contradicted"
    TAG_MALFORMED = "tag_malformed"
    MARKER_DAMAGED = "marker_damaged"
    COMPONENT_DAMAGED = "component_damaged"


class Finding(msgspec.Struct, frozen=True):
    """One finding of an import. It contains no text of a conversation.

    Attributes:
        line: number in the file, from 1.
        offset: in characters of `text_content`; None for a finding about the whole line.
        detail: a label, a kind of damage and its length, or a field.
    """

    trouble: ImportProblem
    line: int
    detail: str
    turn_id: str = ""
    offset: int | None = None


class LegacyRecord(msgspec.Struct, frozen=True):
    """One message of one turn.

    Attributes:
        at: when it was written; with an offset from UTC.
        sub_agent_id: the sub-agent of the message, if it was tagged.
        intent_labels: of the classifier; an operator maps them to sub-agents.
        name: of the `render_*` tool; for tool messages only.
        tool_input, component_data: of tool messages; kept byte for byte.
    """

    turn_id: str
    episode_id: str
    principal: str
    at: datetime
    role: Literal["user", "assistant", "tool"]
    text_content: str = ""
    sub_agent_id: str | None = None
    intent_labels: tuple[str, ...] = ()
    name: str = ""
    tool_input: msgspec.Raw = msgspec.Raw(b"{}")
    component_data: msgspec.Raw = msgspec.Raw(b"")

    @property
    def key(self) -> tuple[str, str, str]:
        """The identity of its turn."""
        return self.episode_id, self.principal, self.turn_id


def read_record(line: bytes, number: int) -> LegacyRecord | Finding:
    """Read one line, or return what is wrong with it."""
    try:
        from_utf8(line)  # raw fields are not decoded below, so their encoding is checked here
        record = _DECODER.decode(line)
    except DecodeError as error:
        return Finding(ImportProblem.UNREADABLE, number, _without_values(error))
    # Ids and principal become keys of the present history, so they must have its form.
    wrong = _problem_with(record)
    return Finding(ImportProblem.UNREADABLE, number, wrong) if wrong else record


def _problem_with(record: LegacyRecord) -> str:
    # Without an offset, the order of turns from several time zones would be wrong.
    if record.at.tzinfo is None:
        return "at: has no offset from UTC"
    if not record.principal:
        return "principal: is empty"
    for field, value in (("turn_id", record.turn_id), ("episode_id", record.episode_id)):
        problem = problem_with_run_side_id(field, value)
        if problem is not None:
            return f"{field}: {problem.description}"
    return ""


def _without_values(error: DecodeError) -> str:
    """Return a decoder's message. It names fields and types, and quotes at most an unknown role."""
    # A parser's message may quote the line, which contains texts of users.
    return str(error) if isinstance(error, SchemaMismatch) else "is not a JSON object"


_DECODER: Final = JsonDecoder(LegacyRecord)
