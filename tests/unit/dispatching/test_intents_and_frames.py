"""Intent counts, intent switches, and the log that listeners are told from."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.dispatching.frames import CallState, CallStateChanged, EventLog, Gap
from sidecar.core.dispatching.intents import IntentReport, newly_called
from sidecar.core.identifiers import CallId, Slot
from tests.support.requirement import requirement

NOW = datetime(2026, 11, 21, tzinfo=UTC)
CHANGE = CallStateChanged(CallId("c"), CallState.RUNNING)


@pytest.mark.parametrize(
    ("declared", "emitted", "expected"), [(2, 1, True), (2, 2, False), (0, 1, False), (1, 2, False)]
)
def test_the_failsafe_fires_when_more_was_declared_than_called(declared: int, emitted: int, expected: bool) -> None:
    """Two intents declared and one call: ask again. Nothing declared: nothing to hold the model to."""
    report = IntentReport(declared, emitted, switched=False, prior_context_missing=False)

    assert report.failsafe is expected


@requirement("PC2-T-13")
@pytest.mark.parametrize(
    ("called", "previous", "expected"),
    [
        (["shop"], ["rewards"], ["shop"]),
        (["shop", "rewards"], ["rewards"], ["shop"]),
        (["rewards"], ["shop", "rewards"], []),
        (["shop"], [], []),
        (["shop"], None, []),
        ([], ["shop"], []),
    ],
)
def test_a_switch_turns_to_somebody_new(called: list[str], previous: list[str] | None, expected: list[str]) -> None:
    """Somebody who was not in the last dispatching turn; the first dispatch and an unknown past are no switch."""
    known = None if previous is None else [Slot(name) for name in previous]

    assert newly_called([Slot(name) for name in called], known) == expected


@given(events=st.integers(0, 30), kept=st.integers(1, 10), after=st.integers(0, 35))
def test_a_listener_gets_every_sequence_once_or_is_told_which_are_gone(events: int, kept: int, after: int) -> None:
    """Gap and events together cover exactly what came after `after`, in order."""
    log = EventLog(kept)
    for _ in range(events):
        log.add(NOW, CHANGE)

    covered: list[int] = []
    for event in log.after(after, NOW):
        gap = event.what if isinstance(event.what, Gap) else None
        covered += range(gap.first, gap.last + 1) if gap else [event.sequence]

    assert covered == list(range(after + 1, events + 1))


def test_a_gap_ends_where_the_kept_events_begin() -> None:
    """Five events, two kept: 1 to 3 are declared missing."""
    log = EventLog(2)
    for _ in range(5):
        log.add(NOW, CHANGE)

    assert [(event.sequence, event.what) for event in log.after(0, NOW)] == [
        (3, Gap(1, 3)),
        (4, CHANGE),
        (5, CHANGE),
    ]
