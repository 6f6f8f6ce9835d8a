"""The tests of ramps may be looked at all the time: seeded rollouts without a difference, and with planted ones."""

from math import inf, log
from random import Random

import pytest

from sidecar.core.evaluation.sequential_tests import Tally, compare, detectable, follow, sample_ratio

ALPHA = 0.05
ROLLOUTS = 200
Blocks = list[tuple[Tally, Tally]]


def rollout(
    seed: int, share: float, active: float, target: float, *, storms: bool = False, blocks: int = 100
) -> Blocks:
    """Return blocks of twenty users; in a storm, both arms fail much more often for a block."""
    chance = Random(seed)

    def arm(count: int, mean: float) -> Tally:
        return Tally(count, sum(chance.random() < mean for _ in range(count)))

    def block() -> tuple[Tally, Tally]:
        storm = 0.4 if storms and chance.random() < 0.2 else 0.0
        inside = sum(chance.random() < share for _ in range(20))
        return arm(inside, active + storm), arm(20 - inside, target + storm)

    return [block() for _ in range(blocks)]


def detected_at(blocks: Blocks) -> int | None:
    """Return after how many users of the active arm it was called worse, looking after each block; None: never."""
    return next((seen.active.count for seen in follow(blocks) if seen.exceeds(ALPHA)), None)


@pytest.mark.parametrize(("share", "mean", "storms"), [(0.05, 0.02, False), (0.5, 0.1, True), (0.1, 0.5, True)])
def test_equal_arms_are_called_different_at_most_as_often_as_promised(share: float, mean: float, storms: bool) -> None:
    """Although one looks all the time, and although both arms have bad moments together."""
    rollouts = [rollout(seed, share, mean, mean, storms=storms) for seed in range(ROLLOUTS)]
    wrong = [each for each in rollouts if detected_at(each) is not None]
    assert len(wrong) <= ALPHA * ROLLOUTS


def test_a_better_active_arm_is_no_evidence() -> None:
    """The test has one side: a definition that fails less often is not ramped down."""
    assert all(detected_at(rollout(seed, 0.3, 0.02, 0.2)) is None for seed in range(20))


@pytest.mark.parametrize(
    ("share", "active", "target", "users"),
    [(0.1, 0.10, 0.02, 200), (0.05, 0.30, 0.02, 60), (0.5, 0.10, 0.02, 500), (0.2, 0.7, 0.5, 250)],
)
def test_a_planted_regression_is_detected_within_a_stated_number_of_users(
    share: float, active: float, target: float, users: int
) -> None:
    """In nine of ten rollouts, storms included."""
    found = [detected_at(rollout(seed, share, active, target, blocks=200)) for seed in range(40)]
    quick = [each for each in found if each is not None and each <= users]
    assert len(quick) >= 36, found


def test_values_between_0_and_1_are_compared_by_their_mean() -> None:
    """Scores: equal ones are no evidence, lost ones are."""
    chance = Random(7)

    def block(mean: float) -> tuple[Tally, Tally]:
        scores = [[min(1.0, max(0.0, chance.gauss(each, 0.1))) for _ in range(10)] for each in (mean, 0.2)]
        active, target = (Tally(len(each), sum(each)) for each in scores)
        return active, target

    assert detected_at([block(0.2) for _ in range(200)]) is None
    assert compare([block(0.5) for _ in range(40)]).exceeds(ALPHA)


def test_no_bet_is_placed_on_what_it_is_judged_by() -> None:
    """The first block has nothing to bet with, however clear it is; the second one is won."""
    clear = (Tally(50, 50), Tally(50, 0))
    assert compare([clear]).log_e == 0.0
    assert compare([clear, clear]).log_e > log(1000)


def test_single_users_are_evidence_too() -> None:
    """Under little traffic blocks have one user each: they are joined until both arms have one."""
    alternating = [(Tally(1, 1), Tally()) if number % 2 else (Tally(), Tally(1, 0)) for number in range(40)]
    chance = Random(5)
    equal = [
        (Tally(1, hit), Tally()) if inside else (Tally(), Tally(1, hit))
        for inside, hit in ((chance.random() < 0.3, float(chance.random() < 0.2)) for _ in range(3000))
    ]
    assert compare(alternating).exceeds(0.001)
    assert detected_at(equal) is None


def test_the_planned_share_is_no_mismatch_and_another_one_is() -> None:
    """Looked at all the time: at most one in a thousand by chance; half of the users gone is seen within 400."""
    wrong = 0
    for seed in range(ROLLOUTS):
        chance, inside, highest = Random(seed), 0, 0.0
        for user in range(1, 1001):
            inside += chance.random() < 0.1
            highest = max(highest, sample_ratio(inside, user - inside, 0.1)) if user % 5 == 0 else highest
        wrong += highest >= log(1000)
    assert wrong <= 1
    assert sample_ratio(20, 380, 0.1) > log(20)
    assert sample_ratio(60, 1140, 0.1) > log(1000)
    assert sample_ratio(5, 5, 0.0) == 0.0


def test_what_can_be_told_grows_with_the_traffic_and_keeps_its_word() -> None:
    """No users, no test; an increase of the stated size is detected in four of five rollouts of that size."""
    assert detectable(0, 100, 0.02, ALPHA) == inf
    assert detectable(3, 30, 0.02, ALPHA) > detectable(30, 300, 0.02, ALPHA) > detectable(300, 3000, 0.02, ALPHA)
    increase = detectable(200, 1800, 0.02, ALPHA)
    found = [detected_at(rollout(seed, 0.1, 0.02 + increase, 0.02)) is not None for seed in range(60)]
    assert sum(found) >= 48
