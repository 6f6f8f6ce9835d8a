"""When a client that was refused for a limit is told to come back."""

import pytest

from sidecar.core.errors import AdmissionRefused
from sidecar.operations.turn.state.concurrency_limit import SOONEST, ConcurrencyLimit
from tests.support.second_place import SettableClock


def told(places: ConcurrencyLimit) -> float:
    """Return after how many seconds a refused client is to come back."""
    with pytest.raises(AdmissionRefused) as refused:
        places.refuse_if_full("are taken")
    assert refused.value.retry_after is not None
    return refused.value.retry_after.total_seconds()


def test_the_longer_nothing_has_come_free_the_later_is_the_next_try() -> None:
    """As long as it has been full; once a place came free and was taken again, from then on."""
    clock = SettableClock()
    places = ConcurrencyLimit("dispatches", 2, 100.0, clock)
    for key in ("a", "b"):
        places.take(key)

    assert told(places) == SOONEST
    for seconds in (2.0, 30.0):
        clock.seconds = seconds
        assert told(places) == seconds
    places.take("b")  # has its place already: nothing changes
    assert told(places) == 30.0
    places.give_back("b")
    places.take("c")
    clock.seconds += 0.5
    assert told(places) == 0.5


def test_nobody_is_told_to_come_back_later_than_a_place_has_to_be_free() -> None:
    """The oldest began 95 of its 100 seconds ago: whatever happens, there is room in 5."""
    clock = SettableClock()
    places = ConcurrencyLimit("dispatches", 1, 100.0, clock)
    places.take("a")
    clock.seconds = 95.0
    assert told(places) == 5.0
    clock.seconds = 200.0
    assert told(places) == SOONEST


def test_what_cannot_be_refused_is_counted_even_so_and_nothing_is_counted_twice() -> None:
    """Ends of turns take places beyond the limit; giving back what was never taken changes nothing."""
    places = ConcurrencyLimit("turns", 1, 1.0, SettableClock())
    for key in ("a", "a", "b"):
        places.take(key)
    places.give_back("nobody")
    assert places.taken == 2
    places.give_back("a")
    assert told(places) == SOONEST
    places.give_back("b")
    places.refuse_if_full("are taken")
