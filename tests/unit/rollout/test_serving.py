"""Who serves a user in a slot (DESIGN section 8)."""

from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.flag_states import FlagValue
from sidecar.core.identifiers import Digest, Vertical
from sidecar.core.rollout.bucketing import GOLDEN, WHOLE, bucket_of, in_ramp, moved_buckets
from sidecar.core.rollout.facts import FlagPair, RolloutMode, SlotRollout, Tombstone
from sidecar.core.rollout.serving import CONTROL, BindSubject, CandidateVerdict, flag_share, serving_definition
from sidecar.core.rollout.states import LifecycleState
from tests.support.requirement import requirement
from tests.unit.rollout.building import NOW, facts, flags, rollout, with_target

NOBODY: frozenset[Digest] = frozenset()
USERS = [f"user-{number}" for number in range(400)]


def who(of: SlotRollout, user: str, *on: str, stale: bool = False, arm: str = "") -> str | None:
    """Return the name of who serves a user."""
    served = serving_definition(of, BindSubject(user, arm), flags(*on, stale=stale), NOBODY).digest
    return None if served is None else served.removeprefix("sha256:")


def test_the_golden_vectors_hold() -> None:
    """A change of the function, or of a library below it, would move users: it must not start."""
    assert moved_buckets() == ()
    assert len({bucket for _, _, bucket in GOLDEN}) == len(GOLDEN)
    moved = f"bucketing b1: key '{'a' * 20}' with salt 'salt' is in 4572, not in 4571"
    assert moved_buckets([("salt", "a" * 300, 4571), GOLDEN[0]]) == (moved,)


@requirement("PF1-D-66")
@given(st.text(max_size=40), st.text(min_size=1, max_size=40), st.integers(0, WHOLE), st.integers(0, WHOLE))
def test_a_user_never_leaves_when_the_ramp_rises(salt: str, key: str, one: int, other: int) -> None:
    """The same answer each time; inside at a ramp means inside at every larger one."""
    lower, higher = sorted((one, other))
    assert bucket_of(salt, key) == bucket_of(salt, key)
    assert not in_ramp(salt, key, lower) or in_ramp(salt, key, higher)
    assert in_ramp(salt, key, WHOLE)
    assert not in_ramp(salt, key, 0)


def test_a_call_without_a_key_is_outside_every_ramp() -> None:
    """At 100 % too: what cannot be assigned is not served."""
    assert not in_ramp("salt", "", WHOLE)


def test_a_ramp_serves_about_its_share() -> None:
    """10 % of ten thousand users, within a few standard deviations."""
    inside = sum(in_ramp("shop", f"user-{number}", 1000) for number in range(10_000))
    assert 850 < inside < 1150


@requirement("PF1-D-27", "PF1-D-28")
def test_the_target_serves_whom_the_active_one_does_not_within_its_own_ramp() -> None:
    """The new one at 10 %, its target at 50 %: nobody is served by both, none beyond what its gates allowed."""
    old, new = facts("old", ramp=5000), with_target(facts("new", ramp=1000), "old")
    of = rollout(old, new, active="new")
    served = {user: who(of, user, "old", "new") for user in USERS}

    for user, name in served.items():
        bucket = bucket_of("shop", user)
        assert name == ("new" if bucket < 1000 else "old" if bucket < 5000 else None)
    assert set(served.values()) == {"new", "old", None}


def test_a_ramped_replacement_takes_the_vertical_from_nobody() -> None:
    """Its target served everybody: everybody goes on being served."""
    of = rollout(facts("old", ramp=WHOLE), with_target(facts("new", ramp=100), "old"), active="new")
    assert {who(of, user, "old", "new") for user in USERS} == {"new", "old"}


@requirement("PF1-T-4")
@given(st.integers(0, WHOLE), st.booleans(), st.sampled_from(["", CONTROL, "treatment"]))
def test_a_kill_takes_it_from_everybody_whatever_else_is_set(ramp: int, with_flags: bool, arm: str) -> None:
    """And nobody takes its place: the target does not, nor for the control group."""
    dead = with_target(facts("new", LifecycleState.ROLLBACK, ramp=ramp, killed=Tombstone(NOW, "ada", "wrong")), "old")
    of = rollout(facts("old", ramp=WHOLE), dead, active=None)
    names = ("old", "new") if with_flags else ()
    assert {who(of, user, *names, arm=arm) for user in USERS[:20]} == {None}


def test_flags_that_nobody_can_say_take_it_off_and_move_nobody_to_the_target() -> None:
    """Of those inside its ramp: absent is safe; the target would be an exposure that nobody decided."""
    old = facts("old", ramp=WHOLE, flags=FlagPair.RETIRED)
    of = rollout(old, with_target(facts("new", ramp=1000), "old"), active="new")
    inside = [user for user in USERS if who(of, user, "new") == "new"]
    served = serving_definition(of, BindSubject(inside[0]), flags(stale=True), NOBODY)
    assert served.digest is None
    assert [verdict for _, verdict in served.verdicts] == [CandidateVerdict.FLAG_STALE]


def test_flags_that_nobody_can_say_take_the_target_from_nobody_outside_the_ramp() -> None:
    """Whom the ramp, or the control arm, leaves to the target keeps it through an outage of the new one's flags."""
    old = facts("old", ramp=WHOLE, flags=FlagPair.RETIRED)
    of = rollout(old, with_target(facts("new", ramp=1000), "old"), active="new")
    outside = [user for user in USERS if who(of, user, "new") == "old"]
    assert {who(of, user, stale=True) for user in outside} == {"old"}
    assert {who(of, user, stale=True, arm=CONTROL) for user in USERS[:20]} == {"old"}


def test_a_flag_that_is_seen_off_leaves_the_users_to_the_target() -> None:
    """The cohort flag of the new one is off: exposure 0, and the old one serves."""
    of = rollout(facts("old", ramp=WHOLE), with_target(facts("new", ramp=WHOLE), "old"), active="new")
    assert {who(of, user, "old") for user in USERS[:20]} == {"old"}


@requirement("PF1-D-75")
def test_an_entry_without_flags_needs_none() -> None:
    """It is served with no flag at all, also while the backend is unreachable."""
    of = rollout(facts("old", ramp=WHOLE, flag=None, flags=FlagPair.NONE), active="old")
    assert who(of, "user-1", stale=True) == "old"


def test_only_the_experiment_keeps_the_control_arm_away() -> None:
    """Not served by the new one, whatever its bucket; in mode `full` the arm says nothing."""
    old, new = facts("old", ramp=WHOLE), with_target(facts("new", ramp=WHOLE), "old")
    experiment, full = (rollout(old, new, active="new", mode=mode) for mode in RolloutMode)
    assert {who(experiment, user, "old", "new", arm=CONTROL) for user in USERS[:20]} == {"old"}
    assert {who(full, user, "old", "new", arm=CONTROL) for user in USERS[:20]} == {"new"}


def test_a_deprecated_entry_serves_nobody() -> None:
    """It is kept for replay only."""
    of = rollout(facts("old", ramp=WHOLE), active="old")
    served = serving_definition(of, BindSubject("user-1"), flags("old"), frozenset({Digest("sha256:old")}))
    assert (served.digest, served.verdicts[0][1]) == (None, CandidateVerdict.DEPRECATED)


class NamesAndVerticals:
    """Flags that remember who asked for what."""

    narrowed = False

    def __init__(self) -> None:
        """Begin unasked."""
        self.asked: list[tuple[str, str | None]] = []

    def value(self, flag_name: str, vertical: Vertical | None = None) -> FlagValue:
        """Say on."""
        self.asked.append((flag_name, vertical))
        return FlagValue.ON

    def share(self, flag_name: str, vertical: Vertical | None = None) -> int:
        """Return everybody."""
        return WHOLE


class SharesOfVerticals(NamesAndVerticals):
    """Flags that are on for a tenth and a fifth of the users of one vertical."""

    narrowed = True

    def share(self, flag_name: str, vertical: Vertical | None = None) -> int:
        """Return all users in any other vertical."""
        return (2_000 if flag_name.endswith("_cohort") else 1_000) if vertical == "shop" else WHOLE


def test_the_share_of_a_definition_is_the_smaller_one_of_both_flags_in_its_vertical() -> None:
    """The same flag may be on for other shares in the backend of another vertical."""
    assert flag_share(facts("new", ramp=WHOLE), SharesOfVerticals()) == 1_000


def test_both_flags_are_asked_in_the_vertical_of_the_definition() -> None:
    """Each vertical may have a backend of its own."""
    names = NamesAndVerticals()
    serving_definition(rollout(facts("new", ramp=WHOLE), active="new"), BindSubject("user-1"), names, NOBODY)
    assert names.asked == [("ai_assistant_subagent_new", "shop"), ("ai_assistant_subagent_new_cohort", "shop")]


def test_a_user_is_inside_from_the_basis_point_after_the_own_bucket() -> None:
    """A ramp of as many basis points as the bucket has serves the buckets below it."""
    for salt, key, bucket in GOLDEN:
        assert in_ramp(salt, key, bucket + 1) == bool(key)
        assert not in_ramp(salt, key, bucket)


def test_a_definition_that_cannot_serve_says_why_and_passes_nobody_on() -> None:
    """Killed, deprecated, in another state: the first of these, whatever its target could."""
    old, killed = facts("old", ramp=WHOLE), Tombstone(NOW, "ada", "wrong")
    for new, deprecated, verdict in (
        (facts("new", LifecycleState.TEST, killed=killed), {"sha256:new"}, CandidateVerdict.KILLED),
        (facts("new", LifecycleState.TEST), {"sha256:new"}, CandidateVerdict.DEPRECATED),
        (facts("new", LifecycleState.TEST), set[str](), CandidateVerdict.STATE),
    ):
        of = rollout(old, with_target(new, "old"), active="new")
        served = serving_definition(of, BindSubject("user-1"), flags("old", "new"), frozenset(map(Digest, deprecated)))
        assert (served.digest, served.verdicts) == (None, ((new.digest, verdict),))


def test_a_flag_that_is_on_for_a_share_narrows_the_ramp_and_never_widens_it() -> None:
    """Bucketed by us, with the salt of the rollout: the users of 20 % are those of a ramp of 20 %."""
    cohort = "ai_assistant_subagent_new_cohort"
    known = flags("new", shares={cohort: 2000})

    def inside(ramp: int) -> set[str]:
        of = rollout(facts("new", ramp=ramp), active="new")
        return {user for user in USERS if serving_definition(of, BindSubject(user), known, NOBODY).digest is not None}

    ramped = {user for user in USERS if in_ramp(rollout(facts("new")).salt, user, 2000)}
    assert inside(WHOLE) == inside(5000) == ramped
    assert inside(1000) < ramped


def test_a_user_outside_the_share_is_passed_on_as_by_a_cohort_flag_that_is_off() -> None:
    """The smaller share of the two flags counts, and the verdict is that of the cohort."""
    known = flags("new", shares={"ai_assistant_subagent_new": 1, "ai_assistant_subagent_new_cohort": WHOLE - 1})
    of = rollout(facts("new", ramp=WHOLE), active="new")
    user = next(user for user in USERS if not in_ramp(of.salt, user, 1))
    assert serving_definition(of, BindSubject(user), known, NOBODY).verdicts[0][1] is CandidateVerdict.COHORT
