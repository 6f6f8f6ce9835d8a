"""The statement: a last line of the answer in which the model lists the missing calls that the answer acknowledges.

The line is `<<stated 5f0c2a17: 1, 3>>`: numbers of a list in the model's instructions, behind a key that is made for
one call of the model. A sub-agent never sees the key, so no text of one that the model repeats is a statement. The line
never reaches a user: `LineFilter` takes it out of the text, also while it is streamed in pieces.
"""

import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage

from subagents_langchain.acknowledging.notes import MissingNote
from subagents_langchain.outcomes.missing import Missing, MissingKind

OPENING: Final = "<<stated"
LONGEST: Final = 400
"""Characters of a statement. A longer line is none and is shown, so that a stream never waits for its end."""
LINE: Final = re.compile(rf"(?<!\s)\s*{OPENING}([^\n]{{0,{LONGEST}}}?)(?:>>|(?=\n))")
"""Ends with its line at the latest, so that a malformed one is not shown either."""
_BEGUN: Final = "|".join(re.escape(OPENING[:length]) for length in range(len(OPENING) - 1, 0, -1))
PERHAPS: Final = re.compile(rf"(?<!\s)\s*(?:{OPENING}[^\n]{{0,{LONGEST}}}|{_BEGUN})?\Z")
"""What may still become a statement when more text comes."""
CUT_OFF: Final = re.compile(r"\s*<<s[^\n]*\Z")
"""What is left of a statement if the answer ends within it."""
STATED: Final = "subagents_stated"
NOTED: Final = "subagents_notes"
"""Keys in an answer's `response_metadata`: kept by every checkpointer, and sent to no provider."""

INSTRUCTION: Final = (
    "Not everything that was asked has a full answer. For each thing that is missing, say so in one short sentence of"
    " your own, in the user's language, without technical reasons and without names of tools or systems. What is"
    " missing:"
)
EXPLAINED: Final[Mapping[Missing, str]] = {
    Missing.ANSWER: "there is no answer right now",
    Missing.DATA: "data needed for it was unavailable",
    Missing.REST: "the answer may be incomplete",
    Missing.TURN: "it was too much at once and is left for later",
}
CLOSING: Final = (
    "End your answer with a line of its own, {line}, that lists the numbers of those of which your answer says that"
    " they are missing, and no others. The line is taken out before the user reads the answer; the user is told of the"
    " numbers that are not in it in other words."
)


@dataclass(frozen=True, slots=True)
class StatementRequest:
    """What one call of the model is asked to state.

    Attributes:
        lacks: what is missing; numbered from 1 for the model.
        key: what a statement must begin with.
    """

    lacks: Sequence[MissingKind]
    key: str = field(default_factory=lambda: secrets.token_hex(4))

    @property
    def instruction(self) -> str:
        """What the composing model is told; empty if nothing is missing."""
        if not self.lacks:
            return ""
        lines = [
            f"{number}. {one.tool_name}({one.request!r}): {EXPLAINED[one.missing]}"
            for number, one in enumerate(self.lacks, 1)
        ]
        example = f"{OPENING} {self.key}: {', '.join(str(number) for number in range(1, len(self.lacks) + 1))}>>"
        return "\n".join([INSTRUCTION, *lines, CLOSING.format(line=example)])

    def stated_in(self, lines: Sequence[str]) -> Sequence[str]:
        """Return the ids of the calls that the last line with this key states; numbers of nothing are left out."""
        named: Collection[int] = ()
        for line in lines:
            key, _, numbers = line.partition(":")
            if key.strip() == self.key:
                named = {int(one) for one in numbers.split(",") if one.strip().isdecimal()}
        return [lack.call_id for number, lack in enumerate(self.lacks, 1) if number in named]


class LineFilter:
    """Takes statements out of text that comes in pieces of any length.

    Attributes:
        lines: the inside of the statements that were taken out.
        shown: whether any text is left that a user can read.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.shown = False
        self._held = ""
        self._taken_out = False

    def feed(self, text: str) -> str:
        """Return what may be shown by now; what may be the beginning of a statement is held back."""
        text, shown = self._held + text, ""
        while found := LINE.search(text):
            if found[0].endswith(">>"):
                self.lines.append(found[1])
            shown += self._passed(text[: found.start()])
            self._taken_out, text = True, text[found.end() :]
        begins = PERHAPS.search(text)
        cut = begins.start() if begins else len(text)
        self._held = text[cut:]
        return shown + self._passed(text[:cut])

    def rest(self) -> str:
        """Return what was held back in vain, at the end of the text; a statement that was cut off is left out."""
        held, self._held = CUT_OFF.sub("", self._held), ""
        return self._passed(held)

    def content(self, content: Any) -> Any:
        """Return the content of a message, text or blocks, as `feed` leaves its text."""
        if isinstance(content, str):
            return self.feed(content)
        return [self._block(one) for one in content]

    def _block(self, block: Any) -> Any:
        if isinstance(block, str):
            return self.feed(block)
        if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str):
            return {**block, "text": self.feed(block["text"])}
        return block

    def _passed(self, text: str) -> str:
        """Return what is shown of a text: what stood on both sides of a statement is not joined to a word."""
        if not text:
            return ""
        apart = "\n" if self._taken_out and not text[0].isspace() else ""
        self._taken_out = False
        self.shown = self.shown or bool(text.strip())
        return apart + text


def metadata_of(asked: StatementRequest, lines: LineFilter) -> dict[str, Any]:
    """Return what is kept beside an answer: the ids of the calls that it states. One without text states nothing."""
    return {STATED: list(asked.stated_in(lines.lines)) if lines.shown else []}


def without_statement(message: AIMessage, asked: StatementRequest) -> AIMessage:
    """Return a whole response without its statement, which is kept in its metadata; one that has it there stays."""
    if STATED in message.response_metadata:
        return message
    lines = LineFilter()
    content = lines.content(message.content)
    if isinstance(content, str):
        content += lines.rest()
    else:
        rest = lines.rest()
        content = [*content, *([{"type": "text", "text": rest}] if rest else [])]
        content = [one for one in content if one not in ("", {"type": "text", "text": ""})]
    metadata = {**message.response_metadata, **metadata_of(asked, lines)}
    return message.model_copy(update={"content": content, "response_metadata": metadata})


def stated_by(message: BaseMessage, lacks: Sequence[MissingKind]) -> list[str]:
    """Return the ids of missing calls that an answer states, in their order; none if nothing is kept beside it."""
    kept = message.response_metadata.get(STATED)
    return [one.call_id for one in lacks if one.call_id in kept] if isinstance(kept, list) else []


def was_asked(messages: Sequence[BaseMessage]) -> bool:
    """Whether some answer among these messages was made with the instruction to state what is missing."""
    return any(STATED in one.response_metadata for one in messages)


def with_notes(message: AIMessage, notes: Sequence[MissingNote]) -> AIMessage:
    """Return an answer that carries its notes: beside the text, or as the text of an answer that has none."""
    texts = [one.text for one in notes]
    if not str(message.text).strip():
        return message.model_copy(update={"content": " ".join(texts)})
    return message.model_copy(update={"response_metadata": {**message.response_metadata, NOTED: texts}})


def merged_text(message: AnyMessage) -> AnyMessage:
    """Return a message as a model of a later turn sees it: the notes that the user read follow the text."""
    if not isinstance(message, AIMessage) or NOTED not in message.response_metadata:
        return message
    notes = rendered_text(message).removeprefix(str(message.text))
    content = message.content
    joined = content + notes if isinstance(content, str) else [*content, {"type": "text", "text": notes}]
    return message.model_copy(update={"content": joined})


def rendered_text(message: BaseMessage) -> str:
    """Return what the user read of an answer: its text, and below it the notes."""
    notes = message.response_metadata.get(NOTED)
    return "\n\n".join([str(message.text), *([" ".join(map(str, notes))] if isinstance(notes, list) else [])])
