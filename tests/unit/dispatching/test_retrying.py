"""Retry budget, backoff and breaker."""

from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.executing.contract import Execution
from sidecar.core.executing.retries import (
    MOST_BREAKERS,
    Breaker,
    BreakerRules,
    Breakers,
    BreakerState,
    RetryBudget,
    RetryRules,
    attempts_allowed,
    backoff_ceiling,
)
from sidecar.core.identifiers import Slot
from tests.support.requirement import requirement

RULES = RetryRules(share=0.1, floor=3, window=10.0)


@requirement("SX-28", "PC2-D-39")
@given(st.integers(min_value=-3, max_value=10))
def test_attempts_are_one_and_the_retries(retries: int) -> None:
    """0 retries, the default of a card, means one attempt; there is always one."""
    execution = Execution(attempt_timeout_ms=1, max_retries=retries, close_on_completion=True)

    assert attempts_allowed(execution) == 1 + max(0, retries)


@given(calls=st.integers(0, 200), wanted=st.integers(0, 100))
def test_retries_stay_within_a_share_of_the_calls_and_a_floor(calls: int, wanted: int) -> None:
    """However many are wanted in one window: 10 % of the calls and 3."""
    budget = RetryBudget(RULES)
    for _ in range(calls):
        budget.called(0.0)

    allowed = sum(budget.allow(1.0) for _ in range(wanted))

    assert allowed <= 3 + 0.1 * calls + 1
    assert allowed >= min(wanted, 3)


def test_every_call_of_the_window_counts_for_the_share() -> None:
    """One retry for each call, without a floor."""
    budget = RetryBudget(RetryRules(share=1.0, floor=0, window=10.0))
    for moment in (0.0, 10.0, 15.0):
        budget.called(moment)

    assert [budget.allow(15.0) for _ in range(3)] == [True, True, False]


def test_the_budget_fills_again_when_the_window_has_passed() -> None:
    """Three retries are spent; ten seconds later there are three again."""
    budget = RetryBudget(RULES)
    assert [budget.allow(0.0) for _ in range(4)] == [True, True, True, False]

    assert budget.allow(10.0)


def test_backoff_doubles_up_to_its_ceiling() -> None:
    """0.1, 0.2, 0.4 ... at most 2 seconds."""
    assert [backoff_ceiling(attempt, RULES) for attempt in (1, 2, 3, 9)] == [0.1, 0.2, 0.4, 2.0]


def test_a_breaker_opens_after_failures_in_a_row_and_probes_once() -> None:
    """Two failures open it; after its time one attempt is let through, and its success closes it."""
    breaker = Breaker(BreakerRules(failures=2, open_for=5.0))
    breaker.failed(0.0)
    assert breaker.admit(0.0)
    breaker.failed(1.0)

    assert not breaker.admit(5.9)
    assert breaker.admit(6.0)
    assert not breaker.admit(6.0)
    breaker.succeeded()
    assert breaker.state is BreakerState.CLOSED


def test_a_success_forgets_earlier_failures() -> None:
    """Failures count in a row only."""
    breaker = Breaker(BreakerRules(failures=2, open_for=5.0))
    breaker.failed(0.0)
    breaker.succeeded()
    breaker.failed(0.0)

    assert breaker.state is BreakerState.CLOSED


def test_a_failed_probe_opens_it_again_and_an_abandoned_one_lets_the_next_try() -> None:
    """A cancelled probe says nothing about the target."""
    breaker = Breaker(BreakerRules(failures=1, open_for=5.0))
    breaker.failed(0.0)
    assert breaker.admit(5.0)
    breaker.abandoned(5.0)
    assert breaker.admit(5.0)
    breaker.failed(5.0)

    assert not breaker.admit(9.9)


def test_each_slot_of_a_target_has_a_breaker_of_its_own() -> None:
    """Shop's is open; support's, on the same host, is not, nor is shop's on another one."""
    breakers = Breakers(BreakerRules(failures=1, open_for=5.0))
    breakers.of("unix:/a", Slot("shop")).failed(0.0)

    assert not breakers.of("unix:/a", Slot("shop")).admit(1.0)
    assert breakers.of("unix:/a", Slot("support")).admit(1.0)
    assert breakers.of("unix:/b", Slot("shop")).admit(1.0)


def test_breakers_are_bounded_and_the_ones_in_use_stay() -> None:
    """Names without end: the one that was asked for last is still open, and no more are kept than allowed."""
    breakers = Breakers(BreakerRules(failures=1, open_for=5.0))
    breakers.of("unix:/a", Slot("shop")).failed(0.0)
    for number in range(MOST_BREAKERS + 10):
        breakers.of("unix:/a", Slot(f"s{number}"))
        breakers.of("unix:/a", Slot("shop"))

    assert len(breakers) == MOST_BREAKERS
    assert not breakers.of("unix:/a", Slot("shop")).admit(1.0)


def test_the_budget_is_exactly_a_share_of_the_calls_in_the_window_and_the_floor() -> None:
    """Ten calls give one retry more than the floor; calls and retries leave the window after exactly ten seconds."""
    budget = RetryBudget(RULES)
    for second in range(10):
        budget.called(float(second))
    assert [budget.allow(9.0) for _ in range(5)] == [True, True, True, True, False]
    budget.called(18.9)
    assert not budget.allow(18.9)
    assert [budget.allow(19.0) for _ in range(5)] == [True, True, True, True, False]


def test_calls_that_left_the_window_give_no_retries() -> None:
    """Twenty of long ago."""
    budget = RetryBudget(RULES)
    for _ in range(20):
        budget.called(0.0)
    assert [budget.allow(10.0) for _ in range(4)] == [True, True, True, False]


def test_a_breaker_counts_anew_after_it_was_open() -> None:
    """Two failures open it; after a successful probe it takes two again, and a failed probe takes one."""
    breaker = Breaker(BreakerRules(failures=2, open_for=5.0))
    breaker.failed(0.0)
    breaker.failed(1.0)
    assert breaker.admit(6.0)
    breaker.succeeded()
    breaker.failed(7.0)
    assert breaker.admit(7.0)
    breaker.failed(8.0)
    assert not breaker.admit(12.9)
    assert breaker.admit(13.0)
    breaker.failed(13.5)
    assert (breaker.state, breaker.admit(18.4), breaker.admit(18.5)) == (BreakerState.OPEN, False, True)


def test_a_late_failure_of_an_attempt_from_before_does_not_keep_a_breaker_open() -> None:
    """As many again do."""
    breaker = Breaker(BreakerRules(failures=2, open_for=5.0))
    for moment in (0.0, 1.0, 2.0):
        breaker.failed(moment)
    assert breaker.admit(6.0)
    breaker = Breaker(BreakerRules(failures=2, open_for=5.0))
    for moment in (0.0, 1.0, 2.0, 3.0):
        breaker.failed(moment)
    assert not breaker.admit(7.9)
    assert breaker.admit(8.0)


def test_abandoning_an_attempt_changes_nothing_unless_it_was_the_probe() -> None:
    """Of a closed breaker nothing; the probe's place is free at once, and not earlier for others."""
    breaker = Breaker(BreakerRules(failures=1, open_for=5.0))
    breaker.abandoned(0.0)
    assert (breaker.state, breaker.admit(0.0)) == (BreakerState.CLOSED, True)
    breaker.failed(1.0)
    breaker.abandoned(2.0)
    assert not breaker.admit(5.9)
    assert breaker.admit(6.0)
    breaker.abandoned(7.0)
    assert not breaker.admit(6.9)
    assert breaker.admit(7.0)


def test_the_rules_that_hold_if_nobody_sets_any() -> None:
    """Five failures and five seconds."""
    assert BreakerRules() == BreakerRules(failures=5, open_for=5.0)
    breaker = Breaker()
    for _ in range(4):
        breaker.failed(0.0)
    assert breaker.admit(0.0)
    breaker.failed(0.0)
    assert not breaker.admit(4.9)


def test_a_breaker_is_the_same_one_each_time() -> None:
    """With the rules of its deployment."""
    rules = BreakerRules(failures=7, open_for=1.0)
    breakers = Breakers(rules)
    breaker = breakers.of("unix:/a", Slot("shop"))
    assert breaker.rules is rules
    assert breakers.of("unix:/a", Slot("shop")) is breaker
    assert len(breakers) == 1


def test_breakers_that_are_not_closed_are_listed() -> None:
    """Each by target, slot and state, for status and metrics."""
    breakers = Breakers(BreakerRules(failures=1, open_for=5.0))
    breakers.of("unix:/a", Slot("closed"))
    for name in ("open", "half"):
        breakers.of("unix:/a", Slot(name)).failed(0.0)
    assert breakers.of("unix:/a", Slot("half")).admit(5.0)

    assert breakers.not_closed() == [
        ("unix:/a", Slot("open"), BreakerState.OPEN),
        ("unix:/a", Slot("half"), BreakerState.HALF_OPEN),
    ]


def test_the_breaker_that_was_asked_for_longest_ago_gives_way() -> None:
    """The newest one stays, and so does the second oldest."""
    breakers = Breakers(BreakerRules(failures=1, open_for=5.0))
    for number in range(MOST_BREAKERS):
        breakers.of("unix:/a", Slot(f"s{number}")).failed(0.0)
    breakers.of("unix:/a", Slot("new")).failed(0.0)

    admitted = [breakers.of("unix:/a", Slot(name)).admit(1.0) for name in ("new", "s1", "s0")]
    assert admitted == [False, False, True]
