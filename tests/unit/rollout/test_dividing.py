"""Users who stand on the same sides of the ramps are served alike: only so may a bind remember instead of judge."""

from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.rollout.bucketing import WHOLE
from sidecar.core.rollout.facts import RolloutMode, SlotRollout
from sidecar.core.rollout.ramp_membership import boundaries_of, membership_of
from sidecar.core.rollout.serving import CONTROL, BindSubject, serving_definition
from sidecar.core.rollout.states import LifecycleState
from sidecar.core.rollout.view import RolloutView
from tests.support.requirement import requirement
from tests.unit.rollout.building import SHOP, facts, flags, rollout, with_target

RAMPS = st.sampled_from([0, 100, 2000, 5000, 9000, WHOLE])
STATES = st.sampled_from([*[LifecycleState.PROMOTE] * 4, *LifecycleState])
ON = st.sampled_from([*[("old", "new")] * 3, ("old",), ("new",), ()])
SHARES = st.dictionaries(
    st.sampled_from([f"ai_assistant_subagent_{each}" for each in ("old", "new", "old_cohort", "new_cohort")]),
    st.sampled_from([1, 1500, 2000, 7000, WHOLE - 1]),
)
ARMS = st.sampled_from(["", CONTROL, "treatment"])
USERS = ["", *(f"user-{number}" for number in range(60))]


@st.composite
def rollouts(draw: st.DrawFn) -> SlotRollout:
    """A slot with two definitions, of which one may be active, with the other as its target or without one."""
    old = facts("old", draw(STATES), ramp=draw(RAMPS))
    new = with_target(facts("new", ramp=draw(RAMPS)), draw(st.sampled_from(["old", "old", None])))
    active = draw(st.sampled_from(["new", "new", None]))
    return rollout(old, new, active=active, mode=draw(st.sampled_from(RolloutMode)))


@requirement("PF1-NFR-4b")
@given(rollouts(), ON, SHARES, ARMS, st.booleans())
def test_who_stands_alike_is_served_alike(
    of: SlotRollout, on: tuple[str, ...], shares: dict[str, int], arm: str, stale: bool
) -> None:
    """Whatever ramps, states, flags, their shares and arms are: the first user on these sides stands for all."""
    known = flags(*on, stale=stale, shares=shares)
    divides = boundaries_of([SHOP], RolloutView({SHOP: of}), known)
    first: dict[object, object] = {}

    for user in USERS:
        served = serving_definition(of, BindSubject(user, arm), known, frozenset())
        assert first.setdefault(membership_of(divides, user), served) == served


def test_nothing_is_asked_of_a_user_where_everybody_is_inside() -> None:
    """At 0 % and at 100 % there is nothing to divide; without a key nobody stands with those who have one."""
    whole = RolloutView({SHOP: rollout(facts("old", ramp=0), facts("new", ramp=WHOLE), active="new")})

    assert boundaries_of([SHOP], whole, flags("old", "new")) == ()
    assert membership_of((), "user-1") == ()
    assert membership_of((), "") is None


def test_a_slot_without_a_rollout_divides_nobody() -> None:
    """It is served to nobody, whoever asks."""
    assert boundaries_of([SHOP], RolloutView({}), flags()) == ()
