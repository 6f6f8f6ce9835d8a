"""When a queue stands: it is long, and only late calls come out of it for as long as one waits, here half a second."""

from typing import Final

from sidecar.core.waiting_calls import WaitingCalls

LATE, IN_TIME = 0.6, 0.4
ROWS: Final = (
    ("one late call", 1, 0.0, True),
    ("a few turns on a machine that pauses again and again", 100, 60.0, True),
    ("sixty turns after one pause", 60, 0.4, True),
    ("a short queue", 15, 0.6, True),
    ("a queue that stands", 16, 0.55, False),
    ("for long", 200, 3.0, False),
)
"""What happens, how many late calls come, within how many seconds, and whether turns are bound then."""


class Calls:
    """Calls of one listener, at times that the test chooses."""

    def __init__(self) -> None:
        """Begin without calls."""
        self._waiting, self.now = WaitingCalls(1.0), 100.0

    def served(self, method: str, waited: float | None, count: int = 1, within: float = 0.0) -> None:
        """Serve calls of a bound turn one after the other, the last one so many seconds after the first."""
        for number in range(count):
            self.now += within / (count - 1) if number else 0.0
            assert not self._waiting.refuses(method, waited, self.now, begins_work=False)

    def binds(self, waited: float | None = 0.0) -> bool:
        """Return whether a bind is served."""
        return not self._waiting.refuses("bind", waited, self.now, begins_work=True)


def test_binds_are_refused_only_if_many_late_calls_come_together_and_for_long_enough() -> None:
    """Each has waited 0.6 s: in one pause of the event loop, in several, or behind the others."""
    for what, count, within, binds in ROWS:
        calls = Calls()
        calls.served("dispatch", LATE, count, within)
        assert calls.binds() is binds, what


def test_one_call_in_time_ends_the_row() -> None:
    """The shortest wait counts: a call that did not wait has found no queue."""
    calls = Calls()
    calls.served("dispatch", LATE, 15, 0.5)
    calls.served("dispatch", IN_TIME)
    calls.served("dispatch", LATE, 15, 0.5)
    assert calls.binds()


def test_a_call_of_another_queue_or_of_an_unknown_wait_does_not_hide_a_queue() -> None:
    """Ends are served from a queue of their own, and some clients do not say when they sent a call."""
    calls = Calls()
    for _ in range(16):
        calls.served("dispatch", LATE)
        calls.served("dispatch", None)
        calls.served("end", 0.0)
        calls.now += 0.036
    assert not calls.binds()


def test_binds_are_refused_for_as_long_as_the_last_late_call_waited() -> None:
    """At most for the longest wait, and whatever the wait of the bind."""
    calls = Calls()
    calls.served("dispatch", 5.0, 16, 1.0)
    calls.now += 0.9
    assert not calls.binds(None)
    calls.now += 0.2
    assert calls.binds(None)


def test_a_late_bind_is_refused_only_from_a_queue_that_stands_and_only_beyond_the_longest_wait() -> None:
    """Binds that are late are served, so that the queue's head moves; those that waited a second are not."""
    calls = Calls()
    assert calls.binds(9.0)
    for _ in range(15):
        calls.now += 0.05
        assert calls.binds(0.9)
    assert not calls.binds(1.1)
    assert calls.binds(0.9)
    assert calls.binds(IN_TIME)
    assert calls.binds(9.0)
