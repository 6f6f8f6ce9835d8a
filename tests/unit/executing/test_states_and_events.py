"""The states of a child and the order of its events."""

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.executing.events import MOST_OF_A_KIND, TOOL_REFUSED
from sidecar.core.executing.states import ExecutionState, moved
from sidecar.core.identifiers import AttemptId, ChildId, Slot, TurnId
from sidecar.core.journal.making.child_log import ChildLog
from sidecar.core.journal.marks import Values, What
from subagents_errors import ChildClosed
from tests.support.derived_events import events_of
from tests.support.requirement import requirement

NOW = datetime(2026, 11, 21, tzinfo=UTC)
EDGES = {
    ("created", "running"),
    ("created", "failed"),
    ("running", "waiting_for_merge"),
    ("running", "failed"),
    ("waiting_for_merge", "completed"),
    ("waiting_for_merge", "failed"),
    ("completed", "closed"),
    ("failed", "closed"),
}
SHAPE = re.compile(
    r"created started (attempt |budget_stopped )*(waiting_for_merge integration_(accepted|failed) |failed )closed $"
)


def a_log() -> ChildLog:
    """Return the log of a child that has started."""
    return ChildLog(ChildId("child-1"), TurnId("turn-1"), Slot("shop"), 2)


@requirement("SX-18", "SX-23")
@pytest.mark.parametrize(("source", "target"), list(product(ExecutionState, ExecutionState)))
def test_only_the_edges_are_moves(source: ExecutionState, target: ExecutionState) -> None:
    """All 36 pairs: failure from any state before the end, everything else in one line."""
    if (source.value, target.value) in EDGES:
        assert moved(source, target) is target
    else:
        with pytest.raises(ChildClosed):
            moved(source, target)


@requirement("SX-41", "SX-42", "SX-43", "SX-45")
@given(st.lists(st.sampled_from(["attempt", "noted", "waiting", "failed", "accept", "reject", "close"])))
def test_whatever_is_tried_the_events_come_in_the_legal_order(steps: list[str]) -> None:
    """Illegal steps raise and leave no event; what was made is always a beginning of the one legal shape."""
    log = a_log()
    acts: dict[str, Callable[[], object]] = {
        "attempt": lambda: log.attempt(NOW, 1, AttemptId("a")),
        "noted": lambda: log.noted(NOW, What.BUDGET_STOPPED, "tokens"),
        "waiting": lambda: log.waiting_for_merge(NOW, ("succeeded",)),
        "failed": lambda: log.failed(NOW, "RUNNER_FAILED"),
        "accept": lambda: log.integrated(NOW),
        "reject": lambda: log.integration_failed(NOW, "no use"),
        "close": lambda: log.closed(NOW, "integrated"),
    }
    for step in steps:
        with suppress(ChildClosed):
            acts[step]()

    events = events_of(log)
    names = "".join(event.name.removeprefix("agent.").removeprefix("subagent_") + " " for event in events)
    assert [event.sequence for event in events] == list(range(1, log.sequence + 1))
    assert SHAPE.match(names) or (log.state is not ExecutionState.CLOSED and "closed" not in names)
    assert names.count("closed ") == (1 if log.state is ExecutionState.CLOSED else 0)


@requirement("SX-46", "SX-47")
@pytest.mark.parametrize(("accepted", "status"), [(True, "completed"), (False, "failed")])
def test_the_closing_event_says_how_it_ended(accepted: bool, status: str) -> None:
    """Id, step, final status and reason."""
    log = a_log()
    log.waiting_for_merge(NOW, ("succeeded",))
    if accepted:
        log.integrated(NOW)
    else:
        log.integration_failed(NOW, "conflict")

    log.closed(NOW, "because")

    assert events_of(log)[-1].details() == {
        "sub_agent_id": "shop",
        "step_idx": 2,
        "final_status": status,
        "close_reason": "because",
    }


@requirement("SX-33", "SX-34", "SX-52")
def test_a_worker_that_is_through_may_still_fail_at_integration() -> None:
    """Waiting for the parent is not completion; a rejected result makes the child fail."""
    log = a_log()
    log.waiting_for_merge(NOW, ("succeeded",))
    waiting = log.state

    log.integration_failed(NOW, "merge conflict")

    assert (waiting, log.state) == (ExecutionState.WAITING_FOR_MERGE, ExecutionState.FAILED)


@requirement("SX-24")
def test_a_closed_child_takes_no_further_event() -> None:
    """Every way to go on is refused."""
    log = a_log()
    log.failed(NOW, "ATTEMPT_TIMEOUT")
    log.closed(NOW, "execution_failed")

    ways: tuple[Callable[[], object], ...] = (
        lambda: log.attempt(NOW, 2, AttemptId("a")),
        lambda: log.waiting_for_merge(NOW, ("succeeded",)),
        lambda: log.failed(NOW, "x"),
        lambda: log.closed(NOW, "again"),
    )
    for late in ways:
        with pytest.raises(ChildClosed):
            late()


@requirement("SX-38")
def test_a_log_that_goes_on_elsewhere_does_not_list_as_many_again() -> None:
    """64 refusals are on record already: whoever takes the child over only counts further ones, and says so once."""
    log, values = a_log(), list[Values]()
    for _ in range(MOST_OF_A_KIND):
        log.repeatable(NOW, What.TOOL_REFUSED, "x", "no")
    taken_over = a_log()
    taken_over.go_on_after(events_of(log))

    for _ in range(2):
        taken_over.repeatable(NOW, What.TOOL_REFUSED, "x", "no")
    assert taken_over.waiting == 0

    taken_over.left_out(NOW)
    (counted,) = taken_over.progress(NOW, values).marks
    assert (counted.what, values) == (What.LEFT_OUT, [({TOOL_REFUSED: 2},)])
    taken_over.left_out(NOW)
    assert taken_over.waiting == 0
