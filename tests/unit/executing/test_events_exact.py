"""Every event of a child, whole, and every refusal of the log, word for word: both are read by people and programs."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest

from sidecar.core.errors import ChildClosed
from sidecar.core.executing.chain import event_link, opening_link
from sidecar.core.executing.events import ATTEMPT, MOST_OF_A_KIND, ChildEvent
from sidecar.core.executing.states import ExecutionState
from sidecar.core.identifiers import AttemptId, ChildId, Slot, TurnId
from sidecar.core.journal.making.child_log import ChildLog
from sidecar.core.journal.marks import Values, What
from tests.support.derived_events import OPENED_AT, events_of
from tests.support.requirement import requirement

NOW = datetime(2026, 11, 22, tzinfo=UTC)
Move = Callable[[ChildLog], None]
FAULT = ("shop", "unix:/s", "ENOENT", "start it")


def a_log(*steps: Move) -> ChildLog:
    """Return the log of a child that has come so far."""
    log = ChildLog(ChildId("k1"), TurnId("t1"), Slot("shop"), 2)
    for step in steps:
        step(log)
    return log


def waiting(log: ChildLog) -> None:
    """The worker is through."""
    log.waiting_for_merge(NOW, ("succeeded", 1, False, 5))


def failed(log: ChildLog) -> None:
    """The work failed."""
    log.failed(NOW, "RUNNER_FAILED", "gone", *(None,) * 4, 5, 6)


def accepted(log: ChildLog) -> None:
    """The parent took it."""
    log.integrated(NOW)


@requirement("SX-41", "SX-42", "SX-43", "SX-45")
@pytest.mark.parametrize(
    ("before", "step", "name", "actor", "summary", "details"),
    [
        (
            [],
            lambda log: log.attempt(NOW, 2, AttemptId("a2")),
            *("subagent_attempt", "sidecar", "attempt 2", {"number": 2, "attempt_id": "a2"}),
        ),
        (
            [],
            lambda log: log.noted(NOW, What.BUDGET_STOPPED, "tokens"),
            *("budget_stopped", "sidecar", "out of budget: tokens", {"budget": "tokens"}),
        ),
        (
            [],
            lambda log: log.noted(NOW, What.TAKEN_OVER),
            "taken_over",
            "sidecar",
            "another sidecar took it over",
            {},
        ),
        (
            [],
            lambda log: log.repeatable(NOW, What.TOOL_REFUSED, "y", "no"),
            *("tool_refused", "sub-agent", "refused: no", {"tool": "y", "reason": "no"}),
        ),
        (
            [],
            waiting,
            *("subagent_waiting_for_merge", "sidecar", "succeeded, waits for the parent"),
            {"outcome": "succeeded", "components": 1, "data_unavailable": False, "input_tokens": 5},
        ),
        (
            [],
            failed,
            *("subagent_failed", "sidecar", "failed: RUNNER_FAILED"),
            {"cause": "RUNNER_FAILED", "detail": "gone", "input_tokens": 5, "output_tokens": 6},
        ),
        ([waiting], accepted, "integration_accepted", "parent", "the parent took the result", {}),
        (
            [waiting],
            lambda log: log.integrated(NOW, "operator"),
            *("integration_accepted", "operator", "the parent took the result", {}),
        ),
        (
            [waiting],
            lambda log: log.integration_failed(NOW, "conflict"),
            *("integration_failed", "parent", "the parent could not use the result", {"reason": "conflict"}),
        ),
        (
            [waiting],
            lambda log: log.integration_failed(NOW, "lost", "sidecar"),
            *("integration_failed", "sidecar", "the parent could not use the result", {"reason": "lost"}),
        ),
        (
            [failed],
            lambda log: log.closed(NOW, "done"),
            *("subagent_closed", "parent", "closed: failed"),
            {"sub_agent_id": "shop", "step_idx": 2, "final_status": "failed", "close_reason": "done"},
        ),
        (
            [waiting, accepted],
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
    log = a_log(*before, step)
    *earlier, previous, event = events_of(log)
    sequence = len(before) + 3

    assert len(earlier) == len(before) + 1
    assert (event.event_id, event.record_id) == (f"k1/{sequence}", f"k1/{sequence}")
    assert (event.child_id, event.run_id, event.sequence, event.time) == ("k1", "t1", sequence, NOW)
    assert (event.name, event.actor, event.summary) == (f"agent.{name}", actor, summary)
    assert event.details() == details
    assert (event.previous_link, log.sequence) == (previous.link, sequence)
    contents = (event.child_id, sequence, event.name, NOW, actor, summary, event.details_json)
    assert event.link == event_link(previous.link, contents) == event.relinked(previous.link)


def test_the_first_two_events_are_that_it_is_created_and_started() -> None:
    """They are derived from its row."""
    created, started = events_of(a_log())
    assert (created.name, created.summary, created.time) == ("agent.subagent_created", "shop created", OPENED_AT)
    assert list(created.details()) == ["sub_agent_id", "digest"]
    assert (started.name, started.summary, started.details()) == ("agent.subagent_started", "shop started", {})


def test_the_chain_is_what_it_was_in_every_version() -> None:
    """Spelled out: a record that was written before an upgrade has to verify after it."""
    event = events_of(a_log())[1]
    when = "2026-11-21T00:00:00Z"
    text = f'["{event.previous_link}","k1",2,"agent.subagent_started","{when}","sidecar","shop started","{{}}"]'
    assert event.link == sha256(f"event\x1f{text}".encode()).hexdigest()
    assert opening_link(("k1", 2, NOW, None)) == sha256(b'child\x1f["k1",2,"2026-11-22T00:00:00Z",null]').hexdigest()


@pytest.mark.parametrize(
    ("before", "step", "why"),
    [
        ([waiting], waiting, "a child that is waiting_for_merge cannot become waiting_for_merge"),
        (
            [waiting],
            lambda log: log.noted(NOW, What.TAKEN_OVER),
            "TAKEN_OVER is not possible for a child that is waiting_for_merge",
        ),
        ([waiting], failed, "the work is through already; only its integration can fail now"),
        (
            [],
            lambda log: log.integration_failed(NOW, "x"),
            "integration is not possible for a child that is running",
        ),
        ([], lambda log: log.closed(NOW, "x"), "a child that is running cannot become closed"),
        (
            [lambda log: log.attempt(NOW, 1, AttemptId("a"))],
            lambda log: log.go_on_after([]),
            "the log has events already",
        ),
    ],
)
def test_a_refused_event_says_why_and_leaves_no_trace(before: list[Move], step: Move, why: str) -> None:
    """State, sequence and what waits for a fact stay."""
    log = a_log(*before)
    state, sequence, there = log.state, log.sequence, log.waiting
    with pytest.raises(ChildClosed) as refused:
        step(log)
    assert str(refused.value) == why
    assert (log.state, log.sequence, log.waiting) == (state, sequence, there)


def test_each_kind_of_repeatable_event_is_kept_64_times_and_then_counted() -> None:
    """Two kinds beyond the bound: one event lists both, sorted, with how many; then counting begins anew."""
    log, kinds = a_log(), ((What.TOOL_REFUSED, 2), (What.DATA_WITHHELD, 1), (What.DELEGATION_REFUSED, -63))
    for what, beyond in kinds:
        for _ in range(MOST_OF_A_KIND + beyond):
            log.repeatable(NOW, what, "x", "no", *(FAULT if what is What.DATA_WITHHELD else ()))
    assert log.waiting == 2 * 64 + 1

    log.left_out(NOW)
    counted = events_of(log)[-1]
    assert (counted.name, counted.actor, counted.time) == ("agent.events_left_out", "sidecar", NOW)
    assert counted.summary == "not listed: 1 more agent.data_withheld, 2 more agent.tool_refused"
    assert counted.details() == {"counts": {"agent.data_withheld": 1, "agent.tool_refused": 2}}
    before = log.waiting
    log.left_out(NOW)
    log.repeatable(NOW, What.TOOL_REFUSED, "x", "no")
    assert log.waiting == before
    log.left_out(NOW)
    assert events_of(log)[-1].details() == {"counts": {"agent.tool_refused": 1}}


def test_a_log_goes_on_from_what_is_on_record() -> None:
    """State, sequence and attempts; events that change no state leave it."""
    before = a_log(lambda log: log.attempt(NOW, 3, AttemptId("a")), lambda log: log.noted(NOW, What.TAKEN_OVER))
    log = a_log()
    log.go_on_after(events_of(before))
    assert (log.state, log.sequence, log.attempts, log.waiting) == (ExecutionState.RUNNING, 4, 3, 0)
    failed(log)
    assert (log.state, log.sequence, log.waiting) == (ExecutionState.FAILED, 5, 1)


def test_events_of_a_kind_that_are_on_record_count_once_each() -> None:
    """Forty of them leave 24."""
    before = a_log(*[lambda log: log.repeatable(NOW, What.TOOL_REFUSED, "x", "no")] * 40)
    log = a_log()
    log.go_on_after(events_of(before))
    for _ in range(64):
        log.repeatable(NOW, What.TOOL_REFUSED, "x", "no")
    assert log.waiting == 24


def an_attempt(details: str, sequence: int = 3) -> ChildEvent:
    """Return that an attempt began, as it is on record."""
    named = (ChildId("k1"), TurnId("t1"), sequence, ATTEMPT, NOW, "sidecar", "an attempt")
    return ChildEvent("e", *named, details, "", "")


@pytest.mark.parametrize(
    ("attempts", "newest"), [(['{"number": 4}'], 4), (["{}"], 1), (["{}", "{}"], 2), (['{"number": 4}', "{}"], 5)]
)
def test_a_log_goes_on_with_the_number_of_the_newest_attempt(attempts: list[str], newest: int) -> None:
    """An event that says none is one more."""
    log = a_log()
    log.go_on_after(an_attempt(details, 3 + place) for place, details in enumerate(attempts))
    assert (log.attempts, log.progress(NOW, []).attempts) == (newest, newest)
    assert log.has(What.ATTEMPT)
    assert not log.has(What.BUDGET_STOPPED)


def test_a_log_whose_marks_are_on_record_goes_on_after_nothing() -> None:
    """It has events, though no mark waits."""
    log = a_log(lambda log: log.attempt(NOW, 2, AttemptId("a2")))
    log.progress(NOW, [])
    assert log.waiting == 0
    with pytest.raises(ChildClosed, match="the log has events already"):
        log.go_on_after([])


def test_a_fact_takes_marks_with_their_values_and_whole_microseconds() -> None:
    """And the number of the newest attempt. Once all is on record, nothing waits."""
    log = a_log(lambda log: log.attempt(NOW, 2, AttemptId("a2")), waiting, accepted)
    values: list[Values] = []
    progress = log.progress(NOW - timedelta(microseconds=1500), values, take=False)
    assert [type(mark.after) for mark in progress.marks] == [int] * 3
    assert [mark.after for mark in progress.marks] == [1500] * 3
    assert progress.attempts == 2
    assert values == [(2, "a2"), ("succeeded", 1, False, 5), ()]
    assert log.waiting == 3
    log.clear()
    assert log.waiting == 0


def test_no_attempt_is_possible_after_the_work() -> None:
    """The refusal says what the child is."""
    with pytest.raises(ChildClosed, match="no attempt is possible for a child that is failed"):
        a_log(failed).attempt(NOW, 2, AttemptId("a2"))
