"""The pure snapshot: which backend answers, and when it no longer counts."""

import pytest

from sidecar.core.flag_states import (
    BackendStatus,
    FlagReport,
    FlagRoutes,
    FlagSnapshot,
    FlagValue,
    flag_snapshot_of,
)
from sidecar.core.identifiers import Vertical
from tests.support.requirement import requirement

SHOP, REWARDS = Vertical("shop"), Vertical("rewards")
ROUTES = FlagRoutes("platform", {REWARDS: "own"})


def merged(now: float = 100.0, **contacts: tuple[set[str], float]) -> FlagSnapshot:
    """Merge reports given as backend=(flags on, confirmed at); a contact counts for 10 s."""
    known = {
        name: BackendStatus(FlagReport(frozenset(on), f"{name}-1"), confirmed_at)
        for name, (on, confirmed_at) in contacts.items()
    }
    return flag_snapshot_of(ROUTES, known, now=now, max_staleness=10.0)


def test_a_flag_is_read_from_the_backend_of_its_vertical() -> None:
    """The same name is on at one backend and off at the other."""
    snapshot = merged(platform=({"ask"}, 100.0), own=(set(), 100.0))

    assert snapshot.value("ask", SHOP) is FlagValue.ON
    assert snapshot.value("ask") is FlagValue.ON
    assert snapshot.value("ask", REWARDS) is FlagValue.OFF


def test_a_named_but_missing_flag_is_off() -> None:
    """The backend was reached and has never heard of it (TN-59)."""
    assert merged(platform=(set(), 100.0)).value("nobody_made_this") is FlagValue.OFF


@requirement("PF1-T-19")
def test_a_backend_that_was_never_reached_makes_its_flags_unreachable_and_not_off() -> None:
    """Only the vertical that asks it is touched."""
    snapshot = merged(platform=({"ask"}, 100.0))

    assert snapshot.value("ask", REWARDS) is FlagValue.UNREACHABLE
    assert snapshot.value("ask", SHOP) is FlagValue.ON
    assert snapshot.stale_backends == ("own",)


@pytest.mark.parametrize(
    ("now", "expected"), [(109.999, FlagValue.ON), (110.0, FlagValue.UNREACHABLE), (500.0, FlagValue.UNREACHABLE)]
)
def test_a_contact_counts_until_it_is_as_old_as_allowed(now: float, expected: FlagValue) -> None:
    """Confirmed at 100, counts for 10 s: the end itself is too late."""
    assert merged(now, platform=({"ask"}, 100.0), own=(set(), 499.0)).value("ask") is expected


def test_a_snapshot_says_until_when_it_holds() -> None:
    """The first of two contacts to become too old decides; one that already is does not."""
    assert merged(platform=(set(), 97.0), own=(set(), 95.0)).fresh_until == 105.0
    assert merged(platform=(set(), 97.0), own=(set(), 80.0)).fresh_until == 107.0
    assert merged(platform=(set(), 80.0)).fresh_until == float("inf")


def test_active_flags_are_those_on_at_a_fresh_backend_sorted_and_once() -> None:
    """A stale backend adds nothing to a cohort."""
    both = merged(platform=({"b", "a"}, 100.0), own=({"c", "a"}, 100.0))
    one = merged(platform=({"b", "a"}, 100.0), own=({"c", "a"}, 80.0))

    assert both.active_flags(frozenset("abcd")) == ("a", "b", "c")
    assert one.active_flags(frozenset("abcd")) == ("a", "b")
    assert both.active_flags(frozenset("bc")) == ("b", "c")


def test_a_backend_that_no_route_uses_is_left_out() -> None:
    """Its flags must not slip into the cohort."""
    snapshot = merged(platform=({"a"}, 100.0), own=(set(), 100.0), forgotten=({"z"}, 100.0))

    assert snapshot.active_flags(frozenset("az")) == ("a",)
    assert ROUTES.backends == ("platform", "own")
