"""Message histories as model providers accept them: a check, a repair, and what earlier turns leave to a model."""

from collections.abc import Iterator, Sequence

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from subagents_client.outcomes import SENTENCES, Outcome
from subagents_langchain.acknowledging.statements import merged_text


class InvalidHistory(ValueError):
    """A model provider would refuse this history; the message lists why."""


def validate_history(messages: Sequence[BaseMessage]) -> None:
    """Refuse what a model provider refuses.

    Raises:
        InvalidHistory: `broken_rules` found something.
    """
    if broken := list(broken_rules(messages)):
        raise InvalidHistory("; ".join(broken))


def broken_rules(messages: Sequence[BaseMessage]) -> Iterator[str]:
    """Yield what a model provider would refuse the history for; nothing if it is valid.

    The rules: each tool call has an id and is answered exactly once before anybody else speaks; an answer belongs to
    an open call; ids of calls are unique; the system speaks first or not at all, then the user; nothing is empty.
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
    """Return what the model's last response was made of; everything if there is none."""
    return messages[: max((place for place, one in enumerate(messages) if isinstance(one, AIMessage)), default=None)]


def answer_in(messages: Sequence[BaseMessage], call_id: str) -> ToolMessage | None:
    """Return the answer to a call of the last response; None if it has none yet."""
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            break
        if isinstance(message, ToolMessage) and message.tool_call_id == call_id:
            return message
    return None


def with_open_calls_answered(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the history with a neutral answer after every tool call that has none.

    A turn that was cancelled between the model's response and the answers leaves such a history in a checkpoint.
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
    """Return the place of the message that the present turn began with: the user's last one."""
    return max((place for place, one in enumerate(messages) if isinstance(one, HumanMessage)), default=0)


def narration_of_earlier_turns(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return what was said in earlier turns, without tool calls and their answers, and the present turn as it is.

    Answers keep what a provider put into their metadata to chain responses; notes that the user read below one follow
    its text.

    Source: PC1-FR-10e, PC1-FR-10f, PC1-D-27.
    """
    start = start_of_turn(messages)
    earlier = [one for one in messages[:start] if not isinstance(one, ToolMessage) and not calls_of(one)]
    return [*map(merged_text, earlier), *messages[start:]]
