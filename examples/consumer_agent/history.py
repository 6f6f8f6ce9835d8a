"""The messages of a conversation, in the form that model providers accept, and a check that they do."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Any


@unique
class Role(StrEnum):
    """Who speaks."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One tool call that the model emitted.

    Attributes:
        call_id: unique in the conversation.
        name: of the tool, e.g. `ask_shop`.
        arguments: a JSON object.
    """

    call_id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `calls` is for the assistant only, `call_id` for answers to tool calls only."""

    role: Role
    text: str
    calls: Sequence[ToolUse] = ()
    call_id: str = ""


def broken_rules(history: Sequence[Message]) -> Iterator[str]:
    """Yield what a model provider would refuse the history for; nothing if it is valid.

    The rules: the first message is the user's; each tool call has exactly one answer, before any other message;
    an answer belongs to a call; no message is empty; call ids are unique.
    """
    if history and history[0].role is not Role.USER:
        yield "the first message is not the user's"
    open_calls: list[str] = []
    seen: set[str] = set()
    for place, message in enumerate(history):
        if not message.text and not message.calls:
            yield f"message {place} is empty"
        if message.role is Role.TOOL:
            if message.call_id in open_calls:
                open_calls.remove(message.call_id)
            else:
                yield f"message {place} answers {message.call_id!r}, which is no open call"
            continue
        if open_calls:
            yield f"message {place} comes before the answers to {', '.join(open_calls)}"
            open_calls = []
        for call in message.calls:
            if call.call_id in seen:
                yield f"message {place} uses the call id {call.call_id!r} again"
            seen.add(call.call_id)
            open_calls.append(call.call_id)
    if open_calls:
        yield f"the history ends before the answers to {', '.join(open_calls)}"
