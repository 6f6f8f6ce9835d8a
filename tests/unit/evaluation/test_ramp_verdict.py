"""What the watchdog makes of a ramp: a breach by any measure, a proposal with its evidence, or patience."""

from bisect import bisect_left
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import isinf
from random import Random

import pytest

from sidecar.core.evaluation.arm_evidence import LATENCY_BOUNDS, ArmBlock, ArmEvidence, RampStep, block_of
from sidecar.core.evaluation.ramp_verdict import SHARES, Rules, Verdict, judge
from sidecar.core.evaluation.sequential_tests import detectable
from sidecar.core.identifiers import DefinitionId, Digest, Slot
from tests.architecture.reading import REPOSITORY

SINCE = datetime(2026, 11, 22, 12, tzinfo=UTC)
STEP = RampStep(
    slot=Slot("shop"),
    active=Digest("new"),
    target=Digest("old"),
    ramp=1000,
    since=SINCE,
    active_id=DefinitionId("shop2"),
    target_id=DefinitionId("shop"),
    curve=(1000, 5000),
)


@dataclass
class World:
    """How users fare inside the ramp and outside of it."""

    share: float = 0.1
    failures: dict[str, tuple[float, float]] = field(default_factory=lambda: {"RUNNER_FAILED": (0.02, 0.02)})
    slower: float = 1.0
    costlier: float = 1.0
    score: tuple[float, float] = (0.8, 0.8)


def evidence(world: World, users: int, seed: int = 0) -> ArmEvidence:
    """Let users come, one every ten seconds."""
    chance, seen = Random(seed), ArmEvidence(STEP, str.encode)
    for number in range(users):
        at, inside = SINCE + timedelta(seconds=10 * number), chance.random() < world.share
        arm, place, user = ("active", 0, f"user-{number}") if inside else ("target", 1, f"user-{number}")
        failed = [reason for reason, means in world.failures.items() if chance.random() < means[place]]
        seen.assigned(user, arm, at)
        took = chance.lognormvariate(0, 0.5) * (1, world.slower)[inside]
        seen.called(user, arm, at, failed[0] if failed else "", took)
        seen.spent(user, arm, at, int(chance.lognormvariate(7, 0.5) * (1, world.costlier)[inside]))
        if chance.random() < 0.5:
            seen.scored(user, arm, at, "helpful", float(chance.random() < world.score[place]))
    return seen


def verdict(world: World) -> tuple[Verdict, str]:
    """Return the verdict on 4000 users, and its first reason."""
    found = judge(evidence(world, 4000).in_order(), 1000, STEP.curve, Rules())
    return found.verdict, found.why[0].split(":")[0]


@pytest.mark.parametrize(
    ("world", "what"),
    [
        (World(failures={"RUNNER_FAILED": (0.15, 0.02)}), "failures"),
        (World(failures={"RUNNER_FAILED": (0.0, 0.1), "DATA_UNAVAILABLE": (0.1, 0.0)}), "DATA_UNAVAILABLE"),
        (World(slower=2.0), "latency beyond the target's median"),
        (World(costlier=2.0), "tokens beyond the target's median"),
        (World(score=(0.5, 0.8)), "score helpful, lost of 1"),
    ],
)
def test_a_regression_of_any_measure_is_a_breach(world: World, what: str) -> None:
    """Within 400 users inside the ramp; another reason may hide in the sum of all failures, and is seen by itself."""
    assert verdict(world) == (Verdict.BREACH, what)


def test_a_ramp_that_is_not_worse_is_rarely_stopped_and_the_next_step_is_proposed() -> None:
    """Over all measures together, looked at every hundred users: at most alpha, here 5 %."""
    stopped = 0
    for seed in range(20):
        seen = evidence(World(), 1000, seed).in_order()
        looks = (judge(seen[:end], 1000, (), Rules()).verdict for end in range(10, len(seen) + 1, 20))
        stopped += Verdict.BREACH in looks
    assert stopped <= 1
    found = judge(evidence(World(), 4000).in_order(), 1000, STEP.curve, Rules())
    assert (found.verdict, found.next_ramp) == (Verdict.PROPOSE, 5000)
    assert "would have been noticed" in found.why[0]
    assert judge(evidence(World(), 4000).in_order(), 6000, (), Rules(users=10**9)).next_ramp == 0


def test_too_few_users_mean_patience_and_say_what_is_missing() -> None:
    """Nothing at all is no proposal, either."""
    found = judge(evidence(World(), 300).in_order(), 1000, (), Rules())
    nothing = judge([], 1000, (), Rules())

    assert (found.verdict, found.next_ramp) == (Verdict.WAIT, 0)
    assert "users inside the ramp have called; 100 are needed" in found.why[0]
    assert nothing.verdict is Verdict.WAIT
    assert isinf(nothing.detectable)


def test_arms_of_the_wrong_size_are_not_compared() -> None:
    """A third of the users inside the ramp never arrives: no proposal, whatever the rest shows."""
    assert verdict(World(share=0.065)) == (Verdict.UNSURE, "sample ratio mismatch")
    assert verdict(World(share=0.05, failures={"RUNNER_FAILED": (0.5, 0.02)}))[0] is Verdict.BREACH


def test_a_certain_but_tiny_difference_is_no_breach() -> None:
    """Half a percent more failures among a million users is sure, and not worth a ramp-down."""
    blocks = [
        {
            "active": ArmBlock(users=5000, calls=5000, failures={"RUNNER_FAILED": 75}),
            "target": ArmBlock(users=45_000, calls=45_000, failures={"RUNNER_FAILED": 450}),
        }
    ] * 20
    found = judge(blocks, 1000, (), Rules())
    assert found.measures[0].seen.exceeds(found.measures[0].alpha)
    assert found.verdict is Verdict.PROPOSE


def test_each_user_counts_once_in_each_measure() -> None:
    """One user whose every call fails is one failure, however often they try."""
    seen = ArmEvidence(STEP, str.encode)
    for minute in range(50):
        at = SINCE + timedelta(minutes=minute)
        seen.assigned("user-1", "active", at)
        seen.called("user-1", "active", at, "RUNNER_FAILED", 1.0)
        seen.scored("user-1", "active", at, "helpful", 0.0)
    (block,) = seen.in_order()

    assert (block["active"].users, block["active"].calls) == (1, 1)
    assert block["active"].failures == {"RUNNER_FAILED": 1}
    assert block["active"].scores["helpful"].count == 1
    assert block["active"].latency[bisect_left(LATENCY_BOUNDS, 1.0)] == 1


def test_the_blocks_of_a_step_are_fixed_in_advance() -> None:
    """Minutes in the first hour, five minutes up to the twelfth, then half hours; none overlaps another."""
    ages = [timedelta(minutes=each) for each in (0, 59, 60, 64, 65, 719, 720, 749, 750)]
    assert [block_of(each) for each in ages] == [0, 59, 60, 60, 61, 191, 192, 192, 193]


def test_the_page_says_what_can_be_told_at_which_traffic() -> None:
    """Each row of its table, from the statistics that the watchdog uses."""
    page = (REPOSITORY / "docs/ramp-watchdog.md").read_text()
    rows = [line.strip("| \n").split(" | ") for line in page.splitlines() if line.endswith("% |") and line[2].isdigit()]
    assert len(rows) == 6
    for inside, outside, *shown in rows:
        alpha = Rules().alpha * SHARES["failures"]
        told = [f"{detectable(int(inside), int(outside), base, alpha):.1%}" for base in (0.005, 0.02, 0.1)]
        assert shown == told, inside
