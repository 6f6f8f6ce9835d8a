"""Decides what the evidence about one ramp means: a breach, a next step, or that it is too early to tell.

`alpha` is the highest probability that a definition which is not worse is ramped down during one step of its ramp,
however often the evidence is judged. Alpha is divided among the measures, and each measure is a test that is valid at
any time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum, unique
from functools import partial
from math import inf, log
from typing import Final

from msgspec import Struct

from sidecar.core.evaluation.arm_evidence import LATENCY_BOUNDS, TOKEN_BOUNDS, ArmBlock
from sidecar.core.evaluation.sequential_tests import Comparison, Tally, compare, detectable, e_value, sample_ratio
from sidecar.core.rollout.bucketing import WHOLE

Block = Mapping[str, ArmBlock]  # by arm, `active` and `target`
# The sum is 1, so that the probability of a false breach over all measures together is at most alpha.
SHARES: Final = {"failures": 0.3, "reason": 0.2, "latency": 0.2, "tokens": 0.1, "score": 0.2}
"""The division of alpha among the kinds of measures.

Within a kind, alpha is divided evenly among the largest possible number of measures, so that a measure that appears
later does not change the thresholds of the others.
"""
REASONS: Final = (
    *("ATTEMPT_TIMEOUT", "JOIN_DEADLINE", "RUNNER_IDLE", "RUNNER_FAILED", "RUNNER_UNAVAILABLE", "RUNNER_BREAKER_OPEN"),
    *("RESULT_INVALID", "RESULT_TOO_LARGE", "RESULT_EMPTY", "EFFECT_UNKNOWN", "DATA_UNAVAILABLE", "BUDGET_EXHAUSTED"),
    "QUESTION_REFUSED",
)
"""Failures that are compared one by one; others count among all failures only."""
QUANTILES: Final = {"median": 0.5, "p95": 0.95}
"""Quantiles of the target. A call of the active definition beyond one of them counts as slow, or as costly."""
MOST_SCORES: Final = 20  # names of scores that are compared
FIRST_CALLS: Final = 20
"""The number of calls of the target from which its quantiles are used."""
# With enough users even a tiny difference is certain, and no operator would want a ramp-down for it.
SMALLEST: Final = {"failures": 0.01, "reason": 0.01, "latency": 0.05, "tokens": 0.1, "score": 0.02}
"""Differences of means below which a measure is no breach, however certain the difference is."""
# Smaller than `alpha`, because an alarm stops all proposals until an operator has found the cause.
RATIO_ALPHA: Final = 0.001


class Measure(Struct, frozen=True):
    """One comparison of the arms; higher is worse.

    Attributes:
        kind: a key of `SHARES`.
        alpha: its share of alpha.
    """

    name: str
    kind: str
    alpha: float
    seen: Comparison

    @property
    def breached(self) -> bool:
        """Return whether the active definition is worse: significantly, and by a relevant difference."""
        return self.seen.exceeds(self.alpha) and self.seen.difference >= SMALLEST[self.kind]

    @property
    def sentence(self) -> str:
        """The observations, in one line."""
        seen = self.seen
        return (
            f"{self.name}: {seen.active.mean:.1%} of {seen.active.count} users in the ramp, {seen.target.mean:.1%} of "
            f"{seen.target.count} outside (e-value {e_value(seen.log_e):.3g}, threshold {1 / self.alpha:.0f})"
        )


class Rules(Struct, frozen=True):
    """The operator's settings.

    Attributes:
        alpha: see the module.
        users: a proposal needs at least this number of users with calls in each arm.
        tell: a proposal needs enough users to detect an increase of the share of failures by this much.
    """

    alpha: float = 0.05
    users: int = 100
    tell: float = 0.1


@unique
class Verdict(StrEnum):
    """The consequence of the evidence."""

    BREACH = "breach"
    """Ramp down."""
    PROPOSE = "propose"
    """An operator may raise the ramp."""
    WAIT = "wait"
    """There are too few observations."""
    UNSURE = "unsure"
    """The evidence cannot be trusted; an operator must find the cause."""


class RampVerdict(Struct, frozen=True):
    """The verdict on one ramp.

    Attributes:
        why: sentences for an operator.
        users: number of users with calls, in the active arm and in the target.
        next_ramp: the proposed step in basis points; 0: none.
        detectable: the smallest increase of the share of failures that would have been detected; infinite: none.
        ratio_e: e-value of the sample ratio check.
    """

    verdict: Verdict
    why: tuple[str, ...]
    measures: tuple[Measure, ...]
    users: tuple[int, int]
    next_ramp: int = 0
    detectable: float = inf
    ratio_e: float = 1.0


def judge(blocks: Sequence[Block], ramp: int, curve: Sequence[int], rules: Rules) -> RampVerdict:
    """Return the verdict on the observations.

    Args:
        blocks: by arm, in order of time.
        ramp: basis points.
        curve: declared steps; empty: none.
        rules: of the operator.
    """
    measures = tuple(measures_of(blocks, rules.alpha))
    active, target = (sum(block[arm].users for block in blocks) for arm in ("active", "target"))
    # All assigned users, and not only those who called: a definition may change who calls, but not who is assigned.
    ratio, failures = sample_ratio(active, target, ramp / WHOLE), measures[0].seen
    called = failures.active.count, failures.target.count
    tell = detectable(*called, failures.target.mean, measures[0].alpha)

    def verdict(which: Verdict, why: tuple[str, ...], next_ramp: int = 0) -> RampVerdict:
        return RampVerdict(which, why, measures, called, next_ramp, tell, e_value(ratio))

    breached = tuple(each.sentence for each in measures if each.breached)
    # First: a breach counts even if the assignment of users looks wrong. Too many ramp-downs are safe, too few are not.
    if breached:
        return verdict(Verdict.BREACH, breached)
    # Before any proposal: if users are not in the arms as the ramp says, the arms differ by more than the definition.
    if ratio >= log(1 / RATIO_ALPHA):
        share = f"{active / (active + target):.1%} of {active + target} users are inside a ramp of {ramp / 100:g} %"
        return verdict(Verdict.UNSURE, (f"sample ratio mismatch: {share}, so the arms cannot be compared",))
    # Last before the proposal: absence of a breach means something only if one could have been noticed.
    missing = tuple(_missing(*called, tell, rules))
    if missing:
        return verdict(Verdict.WAIT, missing)
    why = f"no measure is worse; an increase of failures by {tell:.1%} would have been noticed"
    return verdict(Verdict.PROPOSE, (why,), _next_step(ramp, curve))


def measures_of(blocks: Sequence[Block], alpha: float) -> Iterator[Measure]:
    """Yield the measures; all failures come first."""

    def measure(name: str, kind: str, among: int, of: Callable[[ArmBlock], Tally]) -> Measure:
        seen = compare((of(block["active"]), of(block["target"])) for block in blocks)
        # A share of alpha among all possible measures of its kind, whether the others occur or not.
        return Measure(name, kind, alpha * SHARES[kind] / among, seen)

    yield measure("failures", "failures", 1, lambda each: Tally(each.calls, sum(each.failures.values())))
    for reason in REASONS:
        # A reason that never occurred needs no test, but its share of alpha stays reserved.
        if any(reason in block["active"].failures for block in blocks):
            yield measure(reason, "reason", len(REASONS), partial(_failed, reason=reason))
    for kind, bounds in (("latency", LATENCY_BOUNDS), ("tokens", TOKEN_BOUNDS)):
        for name, quantile in QUANTILES.items():
            seen = compare(_beyond(blocks, kind, len(bounds), quantile))
            yield Measure(f"{kind} beyond the target's {name}", kind, alpha * SHARES[kind] / len(QUANTILES), seen)
    # In the order of their first appearance, so that a later name never replaces one that is tested already.
    names = dict.fromkeys(name for block in blocks for arm in block.values() for name in arm.scores)
    # The first names only: each further one would take alpha from the others.
    for name in list(names)[:MOST_SCORES]:
        yield measure(f"score {name}, lost of 1", "score", MOST_SCORES, partial(_lost, name=name))


def _failed(block: ArmBlock, reason: str) -> Tally:
    return Tally(block.calls, block.failures.get(reason, 0))


def _lost(block: ArmBlock, name: str) -> Tally:
    score = block.scores.get(name)
    # Of a score, 1 is the best; the tests compare losses, so that higher is worse in every measure.
    return Tally() if score is None else Tally(score.count, score.count - score.total)


def _beyond(blocks: Sequence[Block], kind: str, bounds: int, quantile: float) -> Iterator[tuple[Tally, Tally]]:
    """Yield the numbers of calls beyond a quantile of the target, which only earlier blocks determine.

    A quantile of the same block would depend on the observations that are compared with it.
    """
    before = [0] * (bounds + 1)
    for block in blocks:
        active, target = (getattr(block[arm], kind) for arm in ("active", "target"))
        # A quantile of a few calls is mostly chance; the blocks before this point are not compared.
        if sum(before) >= FIRST_CALLS:
            # The bucket of the quantile itself is not beyond it.
            limit = _bucket(before, quantile) + 1
            yield Tally(sum(active), sum(active[limit:])), Tally(sum(target), sum(target[limit:]))
        before = [known + more for known, more in zip(before, target, strict=True)]


def _bucket(counts: Sequence[int], quantile: float) -> int:
    """Return the first bucket up to which this share of the counts lies."""
    whole, so_far = sum(counts), 0
    for bucket, count in enumerate(counts):
        so_far += count
        if so_far >= quantile * whole:
            return bucket
    return len(counts) - 1


def _missing(inside: int, outside: int, tell: float, rules: Rules) -> Iterator[str]:
    for users, where in ((inside, "inside the ramp"), (outside, "outside of it")):
        if users < rules.users:
            yield f"{users} users {where} have called; {rules.users} are needed"
    if tell > rules.tell:
        shown = "no increase" if tell == inf else f"only one by {tell:.1%}"
        yield f"an increase of failures by {rules.tell:.1%} would not have been noticed yet ({shown} would)"


def _next_step(ramp: int, curve: Sequence[int]) -> int:
    """Return the next declared step; without declared steps, twice the ramp."""
    # Beyond the last declared step there is only the whole; see the rules for raises in `core/rollout/transitions`.
    return next((each for each in curve if each > ramp), WHOLE) if curve else min(ramp * 2, WHOLE)
