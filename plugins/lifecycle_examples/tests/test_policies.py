"""What the example policies deny, and when."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sidecar.core.identifiers import Vertical
from sidecar.core.rollout.facts import RolloutMode
from sidecar.core.rollout.states import LifecycleState
from sidecar.policy.factory import make_lifecycle_policy
from sidecar.policy.lifecycle import Approval, Step, StepFacts
from sidecar.policy.problems import PluginProblem
from sidecar_conformance.policy_bench import NOW, changed
from sidecar_lifecycle_examples.plugin import sidecar_lifecycle_policies

SPECS = {spec.name: spec for spec in sidecar_lifecycle_policies()}
FRIDAY = {"days": ["fri"], "from": "16:00", "to": "24:00", "why": "weekend"}
SALE = {"from": "2026-11-26T00:00", "to": "2026-11-30T09:00", "why": "sale"}


def denied(name: str, settings: dict[str, Any], facts: StepFacts) -> str:
    """Return why a policy with these settings denies a step; empty: it does not."""
    return make_lifecycle_policy(SPECS[name], settings).check(facts).denied


@pytest.mark.parametrize(
    ("at", "frozen"),
    [
        (datetime(2026, 7, 3, 13, 59, tzinfo=UTC), False),  # 15:59 in Berlin, in summer
        (datetime(2026, 7, 3, 14, 0, tzinfo=UTC), True),
        (datetime(2026, 7, 3, 21, 59, tzinfo=UTC), True),
        (datetime(2026, 7, 3, 22, 0, tzinfo=UTC), False),  # Saturday, 00:00
        (datetime(2026, 1, 9, 14, 30, tzinfo=UTC), False),  # 15:30, in winter
        (datetime(2026, 1, 9, 15, 0, tzinfo=UTC), True),
        (datetime(2026, 11, 25, 22, 59, tzinfo=UTC), False),
        (datetime(2026, 11, 25, 23, 0, tzinfo=UTC), True),  # the sale begins in Berlin
        (datetime(2026, 11, 30, 8, 0, tzinfo=UTC), False),  # and its end is outside
    ],
)
def test_a_freeze_goes_by_the_wall_clock_of_its_place(at: datetime, frozen: bool) -> None:
    """In summer and in winter; a window's end is outside."""
    settings = {"timezone": "Europe/Berlin", "weekly": [FRIDAY], "dates": [SALE]}

    assert bool(denied("change-freeze", settings, changed(now=at))) is frozen


def test_a_freeze_says_why_and_what_time_it_is_there() -> None:
    """So that nobody has to reckon."""
    reason = denied("change-freeze", {"dates": [SALE]}, changed(now=datetime(2026, 11, 27, 10, 0, tzinfo=UTC)))

    assert reason == "no changes now (sale): it is Fri 27 Nov 10:00 in UTC"


def test_a_freeze_leaves_the_end_of_an_incident_possible_unless_it_is_told_otherwise() -> None:
    """What was killed can be activated."""
    at = datetime(2026, 11, 27, 10, 0, tzinfo=UTC)
    activating = changed(step=Step.ACTIVATE, now=at)

    assert denied("change-freeze", {"dates": [SALE]}, activating) == ""
    assert denied("change-freeze", {"dates": [SALE], "steps": ["activate"]}, activating) != ""


def test_one_subject_is_not_enough_however_often_it_asks() -> None:
    """The other one has to be another one."""
    twice = changed(approvals=(Approval("a", NOW - timedelta(hours=1)), Approval("a", NOW)))
    both = changed(approvals=(Approval("a", NOW - timedelta(hours=1)), Approval("b", NOW)))

    assert denied("two-persons", {}, twice) == (
        "asked for by a; 1 other person has to ask for exactly this step, with a request of their own"
    )
    assert denied("two-persons", {}, both) == ""
    assert "asked for by a, b; 1 other person" in denied("two-persons", {"subjects": 3}, both)


def test_an_approval_expires() -> None:
    """To the second, and one from the future does not count."""
    day = timedelta(hours=24)

    def asked(at: datetime) -> StepFacts:
        return changed(approvals=(Approval("a", at), Approval("b", NOW)))

    assert denied("two-persons", {}, asked(NOW - day + timedelta(seconds=1))) == ""
    assert denied("two-persons", {}, asked(NOW - day)) != ""
    assert denied("two-persons", {"approvals_last": "30m"}, asked(NOW - timedelta(minutes=31))) != ""
    assert denied("two-persons", {}, asked(NOW + timedelta(seconds=1))) != ""


KEY, OTHER_KEY, ISSUER = "ab" * 8, "cd" * 8, "https://login.example"


@pytest.mark.parametrize(
    ("approvals", "allowed"),
    [
        ((("ada", KEY), ("invented", KEY)), False),
        ((("ada", KEY), ("bob", OTHER_KEY)), True),
        ((("ada", KEY), ("invented", KEY), ("bob", OTHER_KEY)), True),
        ((("ada", KEY), ("ada", OTHER_KEY)), False),
        ((("ada", ISSUER), ("bob", ISSUER)), True),
        ((("ada", ISSUER), ("bob", KEY)), True),
        ((("ada", ""), ("bob", "")), True),  # kept before keys were
    ],
)
def test_two_subjects_of_one_key_are_one_person_and_two_of_an_issuer_are_two(
    approvals: tuple[tuple[str, str], ...], allowed: bool
) -> None:
    """The holder of a key may have written both; an issuer vouches for each."""
    facts = changed(approvals=tuple(Approval(subject, NOW, key) for subject, key in approvals))

    assert (denied("two-persons", {}, facts) == "") is allowed


def test_subjects_of_one_key_are_told_that_another_key_is_needed_unless_the_settings_say_otherwise() -> None:
    """`different_keys = false` is for a service that signs for many persons with one key."""
    facts = changed(approvals=(Approval("ada", NOW, KEY), Approval("invented", NOW, KEY)))

    assert denied("two-persons", {}, facts) == (
        "asked for by ada, invented with the same key; 1 other person has to ask for exactly this step, "
        "with a key and a request of their own"
    )
    assert denied("two-persons", {"different_keys": False}, facts) == ""


@pytest.mark.parametrize("step", [Step.PROMOTE, Step.OVERRIDE_GATE, Step.ACTIVATE])
def test_two_persons_guard_more_than_the_ramp(step: Step) -> None:
    """Also what would get around it."""
    assert denied("two-persons", {}, changed(step=step, state=LifecycleState.TEST)) != ""


def test_the_largest_step_is_counted_in_percentage_points() -> None:
    """From where the ramp stands; and what would be possible is said."""
    assert denied("largest-step", {"points": 20}, changed(from_ramp=500, to_ramp=2500)) == ""
    assert denied("largest-step", {"points": 20}, changed(from_ramp=500, to_ramp=2501)) == (
        "a step is at most 20 percentage points; from here up to 25 %"
    )


def test_a_raise_waits_until_the_last_one_has_been_watched() -> None:
    """A first one does not; and nothing ever steps by itself."""
    settings = {"at_least": "4h"}

    assert denied("observation-time", settings, changed(last_step_at=None)) == ""
    assert denied("observation-time", settings, changed(last_step_at=NOW - timedelta(hours=4))) == ""
    assert denied("observation-time", settings, changed(last_step_at=NOW - timedelta(hours=3))) == (
        "the last change is watched until 2026-03-04 13:00:00 UTC"
    )


FULL = RolloutMode.FULL


@pytest.mark.parametrize(
    ("step", "more"),
    [
        ({"step": Step.CONFIGURE, "to_mode": FULL}, True),
        ({"step": Step.CONFIGURE, "to_mode": FULL, "from_ramp": 0}, False),
        ({"step": Step.CONFIGURE, "from_mode": FULL, "to_mode": FULL}, False),  # another curve
        ({"step": Step.CONFIGURE, "from_mode": FULL}, False),  # the control arm is kept away
        ({"step": Step.ACTIVATE}, True),
        ({"step": Step.ACTIVATE, "from_ramp": 0}, False),
        ({"step": Step.SET_RAMP, "to_ramp": 100}, False),
        ({"step": Step.RETIRE_FLAGS}, False),
    ],
)
def test_whatever_gives_users_more_waits_for_the_observation_time(step: dict[str, Any], more: bool) -> None:
    """The control arm that comes in, and what is activated, as much as a raise; at 0 % nobody gets anything."""
    at_present = {"to_ramp": step.get("from_ramp", 500), **step}

    early = denied("observation-time", {"at_least": "4h"}, changed(**at_present, last_step_at=NOW))
    later = denied("observation-time", {"at_least": "4h"}, changed(**at_present, last_step_at=NOW - timedelta(hours=4)))

    assert (bool(early), later) == (more, "")


def test_a_vertical_may_differ() -> None:
    """It keeps what it does not say otherwise."""
    settings = {"points": 20, "verticals": {"rewards": {"points": 5}}}

    assert denied("largest-step", settings, changed()) == ""
    assert "up to 10 %" in denied("largest-step", settings, changed(vertical=Vertical("rewards")))


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("change-freeze", {"timezone": "Europe/Atlantis"}, "there is no timezone 'Europe/Atlantis'"),
        ("change-freeze", {"timezone": "../../etc/passwd"}, "there is no timezone"),
        ("change-freeze", {"weekly": [{**FRIDAY, "to": "02:00"}]}, "write two for one over midnight"),
        ("change-freeze", {"dates": [{"from": "2026-11-26T00:00Z", "to": "2026-11-27T00:00Z"}]}, "are local"),
        ("change-freeze", {"dates": [{"from": "2026-11-26T00:00", "to": "2026-11-26T00:00"}]}, "before it begins"),
        ("two-persons", {"subjects": 1}, "less than the minimum of 2"),
        ("two-persons", {"approvals_last": "soon"}, "does not match"),
        ("observation-time", {"at_leats": "4h"}, "`at_leats` may mean `at_least`"),
    ],
)
def test_settings_that_make_no_sense_are_refused(name: str, settings: dict[str, Any], said: str) -> None:
    """When the policy is made: its verticals' steps are denied until they are mended."""
    with pytest.raises(PluginProblem) as refused:
        make_lifecycle_policy(SPECS[name], settings)

    assert said in str(refused.value)
