"""The check of message histories, and their repair."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from subagents_langchain import InvalidHistory, broken_rules, validate_history, with_open_calls_answered


def asks(*ids: str) -> AIMessage:
    """Return a response with calls of these ids."""
    return AIMessage("", tool_calls=[{"name": "ask_shop", "args": {}, "id": one} for one in ids])


def tells(call_id: str) -> ToolMessage:
    """Return an answer to a call."""
    return ToolMessage("x", tool_call_id=call_id)


USER = HumanMessage("?")
UNREADABLE = AIMessage(
    "", invalid_tool_calls=[{"name": "ask_shop", "args": "{", "id": "a", "error": None, "type": "invalid_tool_call"}]
)


@pytest.mark.parametrize(
    "history",
    [
        [USER],
        [SystemMessage("s"), USER, AIMessage("hi")],
        [USER, asks("a", "b"), tells("b"), tells("a"), AIMessage("so")],
        [USER, UNREADABLE, tells("a"), AIMessage("so")],
        [USER, asks("a"), tells("a"), asks("b"), tells("b"), AIMessage("so"), USER],
    ],
)
def test_what_providers_take_is_valid(history: list[AnyMessage]) -> None:
    """Answers may come in any order, but before anybody else speaks."""
    validate_history(history)


@pytest.mark.parametrize(
    ("history", "rule"),
    [
        ([USER, asks("a")], "ends before the answers to a"),
        ([USER, UNREADABLE], "ends before the answers to a"),
        ([USER, asks("a", "b"), tells("a"), AIMessage("so")], "before the answers to b"),
        ([USER, asks("a"), USER, tells("a")], "before the answers to a"),
        ([USER, tells("a")], "no open call"),
        ([USER, asks("a"), tells("a"), tells("a")], "no open call"),
        ([USER, asks("a", "a"), tells("a"), tells("a")], "used before"),
        ([USER, asks("a"), tells("a"), asks("a"), tells("a")], "used before"),
        ([USER, asks(""), tells("")], "is empty"),
        ([AIMessage("hi")], "not the user's"),
        ([USER, AIMessage("")], "is empty"),
        ([USER, SystemMessage("s")], "only speak first"),
    ],
)
def test_what_providers_refuse_is_refused(history: list[AnyMessage], rule: str) -> None:
    """Each rule by itself."""
    with pytest.raises(InvalidHistory, match=rule):
        validate_history(history)


@given(st.lists(st.tuples(st.integers(0, 3), st.sets(st.integers(0, 3))), max_size=5))
def test_a_history_with_open_calls_is_mended_wherever_they_are(turns: list[tuple[int, set[int]]]) -> None:
    """Any number of calls in each of some turns, any of them answered; what was whole stays as it is."""
    history: list[AnyMessage] = [USER]
    for place, (count, answered) in enumerate(turns):
        ids = [f"{place}-{number}" for number in range(count)]
        history += [asks(*ids), *(tells(one) for number, one in enumerate(ids) if number in answered)] if ids else []
        history.append(USER)
    mended = with_open_calls_answered(history)

    assert list(broken_rules(mended)) == []
    assert [one for one in mended if one in history] == history
    assert with_open_calls_answered(mended) == mended
