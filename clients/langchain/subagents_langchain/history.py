"""Message histories: checks and repairs them for model providers, and reduces earlier turns to their narration."""

from collections.abc import Iterator, Sequence

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from subagents_client.outcomes import SENTENCES, Outcome
from subagents_langchain.acknowledging.statements import merged_text


class InvalidHistory(ValueError):
    """A model provider would reject the message history; the exception's text lists the reasons."""


def validate_history(messages: Sequence[BaseMessage]) -> None:
    """Raise an exception for a history that a model provider would reject.

    Raises:
        InvalidHistory: the history breaks a rule of `broken_rules`.
    """
    if broken := list(broken_rules(messages)):
        raise InvalidHistory("; ".join(broken))


def broken_rules(messages: Sequence[BaseMessage]) -> Iterator[str]:
    """Yield each reason for which a model provider would reject the history; nothing if the history is valid.

    The rules: each tool call has a unique id, and exactly one tool message answers it before any other message; each
    tool message answers an open call; a system message can only be the first message; the first other message is the
    user's; no message is empty.
    """
    open_calls: list[str] = []
    seen: set[str] = set()
    spoken = [one for one in messages if not isinstance(one, SystemMessage)]
    if spoken and not isinstance(spoken[0], HumanMessage):
        yield "the first message is not the user's"
    for place, message in enumerate(messages):
        if not str(message.text) and not calls_of(message):
            yield f"message {place} is empty"
        if isinstance(message, ToolMessage):
            if message.tool_call_id in open_calls:
                open_calls.remove(message.tool_call_id)
            else:
                yield f"message {place} answers {message.tool_call_id!r}, which is no open call"
            continue
        if open_calls:
            yield f"message {place} comes before the answers to {', '.join(open_calls)}"
            open_calls = []
        if isinstance(message, SystemMessage) and place:
            yield f"message {place} is the system's, which may only speak first"
        for call_id in calls_of(message):
            if not call_id or call_id in seen:
                yield f"message {place} has a tool call with the id {call_id!r}, which is empty or was used before"
            seen.add(call_id)
            open_calls.append(call_id)
    if open_calls:
        yield f"the history ends before the answers to {', '.join(open_calls)}"


def calls_of(message: BaseMessage) -> Sequence[str]:
    """Return the ids of all tool calls of a message, also of those whose arguments could not be read."""
    if not isinstance(message, AIMessage):
        return []
    return [str(call["id"] or "") for call in [*message.tool_calls, *message.invalid_tool_calls]]


def last_response(messages: Sequence[BaseMessage]) -> AIMessage | None:
    """Return the model's last response; None if there is none."""
    return next((one for one in reversed(messages) if isinstance(one, AIMessage)), None)


def before_last_response(messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """Return the messages before the model's last response; all messages if there is no response."""
    return messages[: max((place for place, one in enumerate(messages) if isinstance(one, AIMessage)), default=None)]


def answer_in(messages: Sequence[BaseMessage], call_id: str) -> ToolMessage | None:
    """Return the tool message that answers a call of the last response; None if the call has no answer."""
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            break
        if isinstance(message, ToolMessage) and message.tool_call_id == call_id:
            return message
    return None


def with_open_calls_answered(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the history with a neutral answer after every unanswered tool call.

    A checkpoint has unanswered calls if a turn was cancelled between the model's response and the answers.
    """
    answered = {one.tool_call_id for one in messages if isinstance(one, ToolMessage)}
    mended: list[AnyMessage] = []
    missing: list[ToolMessage] = []
    for message in messages:
        if not isinstance(message, ToolMessage):
            mended += missing
            missing = [
                ToolMessage(SENTENCES[Outcome.FAILED], tool_call_id=call_id, status="error")
                for call_id in calls_of(message)
                if call_id not in answered
            ]
        mended.append(message)
    return mended + missing


def start_of_turn(messages: Sequence[BaseMessage]) -> int:
    """Return the index of the message with which the current turn began: the user's last message, or 0."""
    return max((place for place, one in enumerate(messages) if isinstance(one, HumanMessage)), default=0)


def narration_of_earlier_turns(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return earlier turns without tool calls and tool messages, and the current turn unchanged.

    Answers of earlier turns keep their metadata, with which some providers chain responses. Notes that the user saw
    below an answer are appended to its text.

    Source: PC1-FR-10e, PC1-FR-10f, PC1-D-27.
    """
    start = start_of_turn(messages)
    earlier = [one for one in messages[:start] if not isinstance(one, ToolMessage) and not calls_of(one)]
    return [*map(merged_text, earlier), *messages[start:]]
