"""The statement: a last line of the answer in which the model lists the missing calls that the answer acknowledges.

The line is `<<stated 5f0c2a17: 1, 3>>`: a key, and numbers of a list in the model's instructions. Each model call
has a new key. A sub-agent never sees the key, so a sub-agent's text that the model repeats is never a statement. The
line never reaches a user: `LineFilter` removes it from the text, also from text that is streamed in pieces.
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
"""Maximum length of a statement, in characters. A longer line is shown, so that a stream does not wait for its end."""
LINE: Final = re.compile(rf"(?<!\s)\s*{OPENING}([^\n]{{0,{LONGEST}}}?)(?:>>|(?=\n))")
"""A statement with the space before it. It ends at the end of its line at the latest, so malformed ones match too."""
_BEGUN: Final = "|".join(re.escape(OPENING[:length]) for length in range(len(OPENING) - 1, 0, -1))
PERHAPS: Final = re.compile(rf"(?<!\s)\s*(?:{OPENING}[^\n]{{0,{LONGEST}}}|{_BEGUN})?\Z")
"""The end of a text that can still become a statement when more text follows."""
CUT_OFF: Final = re.compile(r"\s*<<s[^\n]*\Z")
"""The part of a statement that remains if the answer ends within it."""
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
    """The statement that one model call is asked for.

    Attributes:
        lacks: the missing calls; the model sees them numbered from 1.
        key: the random key with which a statement must begin.
    """

    lacks: Sequence[MissingKind]
    key: str = field(default_factory=lambda: secrets.token_hex(4))

    @property
    def instruction(self) -> str:
        """The instruction for the composing model; empty if nothing is missing."""
        if not self.lacks:
            return ""
        lines = [
            f"{number}. {one.tool_name}({one.request!r}): {EXPLAINED[one.missing]}"
            for number, one in enumerate(self.lacks, 1)
        ]
        example = f"{OPENING} {self.key}: {', '.join(str(number) for number in range(1, len(self.lacks) + 1))}>>"
        return "\n".join([INSTRUCTION, *lines, CLOSING.format(line=example)])

    def stated_in(self, lines: Sequence[str]) -> Sequence[str]:
        """Return the ids of the calls in the last line with this key; numbers that are not in the list are ignored."""
        named: Collection[int] = ()
        for line in lines:
            key, _, numbers = line.partition(":")
            if key.strip() == self.key:
                named = {int(one) for one in numbers.split(",") if one.strip().isdecimal()}
        return [lack.call_id for number, lack in enumerate(self.lacks, 1) if number in named]


class LineFilter:
    """Removes statements from text that arrives in pieces of any length.

    Attributes:
        lines: contents of the removed statements, e.g. ` 5f0c2a17: 1, 3`.
        shown: whether any text other than white space was returned.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.shown = False
        self._held = ""
        self._removed = False

    def feed(self, text: str) -> str:
        """Add a piece and return the text that can be shown; a possible beginning of a statement is held back."""
        text, shown = self._held + text, ""
        while found := LINE.search(text):
            if found[0].endswith(">>"):
                self.lines.append(found[1])
            shown += self._passed(text[: found.start()])
            self._removed, text = True, text[found.end() :]
        begins = PERHAPS.search(text)
        cut = begins.start() if begins else len(text)
        self._held = text[cut:]
        return shown + self._passed(text[:cut])

    def rest(self) -> str:
        """Return the text that is still held back at the end of the text, without a statement that was cut off."""
        held, self._held = CUT_OFF.sub("", self._held), ""
        return self._passed(held)

    def content(self, content: Any) -> Any:
        """Return the content of a message, text or blocks, with the text that `feed` returns."""
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
        """Return a text that is shown; a line break separates it from the text before a removed statement."""
        if not text:
            return ""
        apart = "\n" if self._removed and not text[0].isspace() else ""
        self._removed = False
        self.shown = self.shown or bool(text.strip())
        return apart + text


def metadata_of(asked: StatementRequest, lines: LineFilter) -> dict[str, Any]:
    """Return metadata of an answer with the ids of the calls that it states; none for an answer without text."""
    return {STATED: list(asked.stated_in(lines.lines)) if lines.shown else []}


def without_statement(message: AIMessage, asked: StatementRequest) -> AIMessage:
    """Return a response whose statement is moved from its content to its metadata, unless that was already done."""
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
    """Return the ids of those missing calls that an answer states, in the order of `lacks`."""
    kept = message.response_metadata.get(STATED)
    return [one.call_id for one in lacks if one.call_id in kept] if isinstance(kept, list) else []


def was_asked(messages: Sequence[BaseMessage]) -> bool:
    """Return whether the model of an answer among these messages had the instruction to state what is missing."""
    return any(STATED in one.response_metadata for one in messages)


def with_notes(message: AIMessage, notes: Sequence[MissingNote]) -> AIMessage:
    """Return an answer with its notes: in its metadata, or as its text if it has no text."""
    texts = [one.text for one in notes]
    if not str(message.text).strip():
        return message.model_copy(update={"content": " ".join(texts)})
    return message.model_copy(update={"response_metadata": {**message.response_metadata, NOTED: texts}})


def merged_text(message: AnyMessage) -> AnyMessage:
    """Return a message for the model of a later turn, with the notes that the user read after its text."""
    if not isinstance(message, AIMessage) or NOTED not in message.response_metadata:
        return message
    notes = rendered_text(message).removeprefix(str(message.text))
    content = message.content
    joined = content + notes if isinstance(content, str) else [*content, {"type": "text", "text": notes}]
    return message.model_copy(update={"content": joined})


def rendered_text(message: BaseMessage) -> str:
    """Return what the user read: the text of an answer, then its notes."""
    notes = message.response_metadata.get(NOTED)
    return "\n\n".join([str(message.text), *([" ".join(map(str, notes))] if isinstance(notes, list) else [])])
