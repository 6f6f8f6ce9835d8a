"""Outcomes in tool messages: a checkpoint in LangGraph's strict mode gives back what it was given."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, ToolMessage

from clients.langchain.tests.support.agents import STRICT
from subagents_client import Axis, CallFailure, CallOutcome, CallStatus, Component, Outcome
from subagents_client.outcomes import TokenUsage
from subagents_langchain import Missing, artifact_of, missing_calls_in, outcome_in

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
TOKENS = st.integers(0, 2**40)
OUTCOMES = st.builds(
    CallOutcome,
    call_id=TEXT,
    tool_name=TEXT,
    sub_agent_id=TEXT,
    child_id=TEXT,
    emission_index=st.integers(0, 2**31),
    outcome=st.sampled_from(Outcome),
    narration=TEXT,
    components=st.lists(st.builds(Component, TEXT, TEXT, TEXT), max_size=2),
    data_unavailable=st.booleans(),
    status=st.none() | st.builds(CallStatus, st.sampled_from(CallFailure) | TEXT, st.sampled_from(Axis), TEXT),
    attempts=st.integers(0, 100),
    duration=st.none() | st.timedeltas(timedelta(0), timedelta(days=400)),
    usage=st.none() | st.builds(TokenUsage, TOKENS, TOKENS, st.none() | TOKENS),
)
FAILED = CallOutcome(call_id="c1", tool_name="ask_shop", sub_agent_id="shop", outcome=Outcome.FAILED)


def from_a_checkpoint(artifact: Any) -> ToolMessage:
    """Return a tool message with the artifact, as a checkpoint gives it back."""
    message = ToolMessage("x", name="ask_shop", tool_call_id="c1", artifact=artifact)
    loaded = STRICT.loads_typed(STRICT.dumps_typed({"messages": [message]}))["messages"][0]
    assert isinstance(loaded, ToolMessage)
    return loaded


@given(OUTCOMES)
def test_every_outcome_survives_a_checkpoint_and_json(outcome: CallOutcome) -> None:
    """Field for field, enumerations and durations too; also where somebody keeps messages as JSON."""
    artifact = artifact_of(outcome)

    assert outcome_in(from_a_checkpoint(artifact)) == outcome
    assert outcome_in(from_a_checkpoint(json.loads(json.dumps(artifact)))) == outcome


def test_an_outcome_that_cannot_be_read_has_failed() -> None:
    """A newer version wrote it: what it means is unknown, so the call is not taken for answered."""
    newer = {**artifact_of(replace(FAILED, outcome=Outcome.SUCCEEDED)), "outcome": "half_succeeded"}
    called = AIMessage("", tool_calls=[{"name": "ask_shop", "args": {"request": "x"}, "id": "c1"}])
    message = from_a_checkpoint(newer)

    assert outcome_in(message) == replace(FAILED, sub_agent_id="")
    assert [one.missing for one in missing_calls_in([called, message])] == [Missing.ANSWER]


@pytest.mark.parametrize("artifact", [None, "text", {}, {"kind": "something.else"}, {"outcome": "failed"}, ["failed"]])
def test_what_another_tool_has_attached_is_no_outcome(artifact: object) -> None:
    """Own tools have artifacts of their own."""
    assert outcome_in(from_a_checkpoint(artifact)) is None
