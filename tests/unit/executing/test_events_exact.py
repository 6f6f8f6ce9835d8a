"""Every event of a child, whole, and every refusal of the log, word for word: both are read by people and programs."""

from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import pytest

from sidecar.core.errors import ChildClosed
from sidecar.core.executing.chain import event_link, opening_link
from sidecar.core.executing.events import MOST_OF_A_KIND, ChildEvent, ChildLog
from sidecar.core.executing.states import ExecutionState
from sidecar.core.identifiers import AttemptId, ChildId, Slot, TurnId
from tests.support.requirement import requirement

NOW = datetime(2026, 11, 22, tzinfo=UTC)
FIRST = "f" * 64
Move = Callable[[ChildLog], ChildEvent]


def a_log(*steps: Move) -> ChildLog:
    """Return the log of a child that has come so far."""
    log = ChildLog(ChildId("k1"), TurnId("t1"), Slot("shop"), 2, FIRST)
    for step in steps:
        step(log)
    return log


def created(log: ChildLog) -> ChildEvent:
    """Row and contract are stored."""
    return log.created(NOW, "sha256:1")


def started(log: ChildLog) -> ChildEvent:
    """The worker begins."""
    return log.started(NOW)


def waiting(log: ChildLog) -> ChildEvent:
    """The worker is through."""
    return log.waiting_for_merge(NOW, "succeeded", tokens=5)


def failed(log: ChildLog) -> ChildEvent:
    """The work failed."""
    return log.failed(NOW, "RUNNER_FAILED", "failed: no answer", detail="gone")


@requirement("SX-41", "SX-42", "SX-43", "SX-45")
@pytest.mark.parametrize(
    ("before", "step", "name", "actor", "summary", "details"),
    [
        ([], created, "subagent_created", "sidecar", "shop created", {"sub_agent_id": "shop", "digest": "sha256:1"}),
        ([created], started, "subagent_started", "sidecar", "shop started", {}),
        (
            [created, started],
            lambda log: log.attempt(NOW, 2, AttemptId("a2")),
            *("subagent_attempt", "sidecar", "attempt 2", {"number": 2, "attempt_id": "a2"}),
        ),
        (
            [created, started],
            lambda log: log.noted(NOW, "agent.x", "said", actor="operator", key=[1]),
            *("x", "operator", "said", {"key": [1]}),
        ),
        ([created, started], lambda log: log.noted(NOW, "agent.x", "said"), "x", "sidecar", "said", {}),
        (
            [created, started],
            lambda log: next(log.repeatable(NOW, "agent.x", "asked", tool="y")),
            *("x", "sub-agent", "asked", {"tool": "y"}),
        ),
        (
            [created, started],
            waiting,
            *("subagent_waiting_for_merge", "sidecar", "succeeded, waits for the parent"),
            {"outcome": "succeeded", "tokens": 5},
        ),
        (
            [created, started],
            failed,
            *("subagent_failed", "sidecar", "failed: no answer", {"cause": "RUNNER_FAILED", "detail": "gone"}),
        ),
        (
            [created, started, waiting],
            lambda log: log.integrated(NOW),
            *("integration_accepted", "parent", "the parent took the result", {}),
        ),
        (
            [created, started, waiting],
            lambda log: log.integrated(NOW, "operator"),
            *("integration_accepted", "operator", "the parent took the result", {}),
        ),
        (
            [created, started, waiting],
            lambda log: log.integration_failed(NOW, "conflict"),
            *("integration_failed", "parent", "the parent could not use the result", {"reason": "conflict"}),
        ),
        (
            [created, started, waiting],
            lambda log: log.integration_failed(NOW, "lost", "sidecar"),
            *("integration_failed", "sidecar", "the parent could not use the result", {"reason": "lost"}),
        ),
        (
            [created, started, failed],
            lambda log: log.closed(NOW, "done"),
            *("subagent_closed", "parent", "closed: failed"),
            {"sub_agent_id": "shop", "step_idx": 2, "final_status": "failed", "close_reason": "done"},
        ),
        (
            [created, started, waiting, lambda log: log.integrated(NOW)],
            lambda log: log.closed(NOW, "done", "operator"),
            *("subagent_closed", "operator", "closed: completed"),
            {"sub_agent_id": "shop", "step_idx": 2, "final_status": "completed", "close_reason": "done"},
        ),
    ],
)
def test_an_event_is_exactly(
    before: list[Move], step: Move, name: str, actor: str, summary: str, details: dict[str, Any]
) -> None:
    """Its id, place, name, actor, one line, details, and both links."""
    log = a_log(*before)
    previous, sequence = log.link, len(before) + 1
    event = step(log)

    assert (event.event_id, event.record_id) == (f"k1/{sequence}", f"k1/{sequence}")
    assert (event.child_id, event.run_id, event.sequence, event.time) == ("k1", "t1", sequence, NOW)
    assert (event.name, event.actor, event.summary) == (f"agent.{name}", actor, summary)
    assert event.details() == details
    assert event.previous_link == previous
    assert (log.link, log.sequence) == (event.link, sequence)
    contents = (event.child_id, sequence, event.name, NOW, actor, summary, event.details_json)
    assert event.link == event_link(previous, contents) == event.relinked(previous)


def test_the_chain_is_what_it_was_in_every_version() -> None:
    """Spelled out: a record that was written before an upgrade has to verify after it."""
    log = a_log()
    assert (log.link, log.sequence, log.state) == (FIRST, 0, ExecutionState.CREATED)
    details = r"{\"sub_agent_id\":\"shop\",\"digest\":\"sha256:1\"}"
    text = f'["{FIRST}","k1",1,"agent.subagent_created","2026-11-22T00:00:00Z","sidecar","shop created","{details}"]'
    assert created(log).link == sha256(f"event\x1f{text}".encode()).hexdigest()
    assert opening_link(("k1", 2, NOW, None)) == sha256(b'child\x1f["k1",2,"2026-11-22T00:00:00Z",null]').hexdigest()


@pytest.mark.parametrize(
    ("before", "step", "why"),
    [
        ([created], created, "a child is created once"),
        ([created], waiting, "a child that is created cannot become waiting_for_merge"),
        ([created, started], started, "a child that is running cannot become running"),
        (
            [created],
            lambda log: log.noted(NOW, "agent.x", "said"),
            "agent.x is not possible for a child that is created",
        ),
        (
            [created, started, waiting],
            failed,
            "the work is through already; only its integration can fail now",
        ),
        (
            [created, started],
            lambda log: log.integration_failed(NOW, "x"),
            "integration is not possible for a child that is running",
        ),
        ([created, started], lambda log: log.closed(NOW, "x"), "a child that is running cannot become closed"),
        (
            [created, started],
            lambda log: log.go_on_after([]),
            "the log has events already",
        ),
    ],
)
def test_a_refused_event_says_why_and_leaves_no_trace(before: list[Move], step: Move, why: str) -> None:
    """State, sequence and link stay."""
    log = a_log(*before)
    state, sequence, link = log.state, log.sequence, log.link
    with pytest.raises(ChildClosed) as refused:
        step(log)
    assert str(refused.value) == why
    assert (log.state, log.sequence, log.link) == (state, sequence, link)


def test_each_kind_of_repeatable_event_is_kept_64_times_and_then_counted() -> None:
    """Two kinds beyond the bound: one event lists both, sorted, with how many; then counting begins anew."""
    log = a_log(created, started)
    for name, times in (("agent.b", MOST_OF_A_KIND + 2), ("agent.a", MOST_OF_A_KIND + 1), ("agent.c", 1)):
        kept = [event for _ in range(times) for event in log.repeatable(NOW, name, "x")]
        assert len(kept) == min(times, 64)

    (counted,) = log.left_out(NOW)
    assert (counted.name, counted.actor, counted.time) == ("agent.events_left_out", "sidecar", NOW)
    assert counted.summary == "not listed: 1 more agent.a, 2 more agent.b"
    assert counted.details() == {"counts": {"agent.a": 1, "agent.b": 2}}
    assert list(log.left_out(NOW)) == []
    assert list(log.repeatable(NOW, "agent.a", "x")) == []
    assert [event.details() for event in log.left_out(NOW)] == [{"counts": {"agent.a": 1}}]


def test_a_log_goes_on_from_what_is_on_record() -> None:
    """State, sequence, link and counts; events that change no state leave it."""
    before = a_log()
    events = [created(before), started(before), before.noted(NOW, "agent.x", "said")]
    log = a_log()
    log.go_on_after(events)
    assert (log.state, log.sequence, log.link) == (ExecutionState.RUNNING, 3, before.link)
    assert failed(log) == failed(before)


def test_events_of_a_kind_that_are_on_record_count_once_each() -> None:
    """Forty of them leave 24."""
    before = a_log()
    events = [created(before), started(before)]
    events += [event for _ in range(40) for event in before.repeatable(NOW, "agent.x", "x")]
    log = a_log()
    log.go_on_after(events)
    assert len([event for _ in range(64) for event in log.repeatable(NOW, "agent.x", "x")]) == 24
