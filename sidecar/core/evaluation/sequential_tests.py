"""Sequential tests, which are valid after every observation: e-values, which grow only if the arms differ.

An e-value is a bet against the hypothesis that the arms do not differ. Under that hypothesis its expectation is at most
1 at any time, so it exceeds 1/alpha with a probability of at most alpha, over all evaluations together (Ville's
inequality). Observations come in blocks of time: within a block both arms see the same traffic, so a failing data
service, which affects both, is no evidence. The bet of a block uses the observations of earlier blocks only.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from math import exp, inf, lgamma, log
from typing import Final

import msgspec

PSEUDO_HITS: Final = 0.5
PSEUDO_COUNT: Final = 1.0
"""The assumed observations of an arm before its first real one: half a hit in one observation."""
CONCENTRATION: Final = 100.0
"""The concentration of the alternative sample ratios around the planned share, as a number of observations."""
POWER_MARGIN: Final = log(5)
"""Growth beyond the threshold that makes a regression of that size visible in about four of five rollouts; in addition
to half the logarithm of the users for each of the two means, which have to be learnt from the data."""


class Tally(msgspec.Struct, frozen=True):
    """Observations of one arm: how many, and the sum of their values, each from 0 to 1."""

    count: int = 0
    hits: float = 0.0

    @property
    def mean(self) -> float:
        """The mean value; 0 without observations."""
        return self.hits / self.count if self.count else 0.0

    def plus(self, other: "Tally") -> "Tally":
        """Return both together."""
        return Tally(self.count + other.count, self.hits + other.hits)

    @property
    def belief(self) -> float:
        """The mean to bet on; never 0 or 1."""
        return (self.hits + PSEUDO_HITS) / (self.count + PSEUDO_COUNT)


class Comparison(msgspec.Struct, frozen=True):
    """The result of a test so far.

    Attributes:
        log_e: logarithm of the e-value now; 0: no evidence either way.
    """

    log_e: float = 0.0
    active: Tally = Tally()
    target: Tally = Tally()

    @property
    def difference(self) -> float:
        """How much higher the mean of the active arm is."""
        return self.active.mean - self.target.mean

    def exceeds(self, alpha: float) -> bool:
        """Return whether the evidence that the active arm is higher is significant."""
        return self.log_e >= log(1 / alpha)


def compare(blocks: Iterable[tuple[Tally, Tally]]) -> Comparison:
    """Return the last result of `follow`."""
    last = deque(follow(blocks), maxlen=1)
    return last[0] if last else Comparison()


def follow(blocks: Iterable[tuple[Tally, Tally]]) -> Iterator[Comparison]:
    """Test that the mean of the active arm is not higher than that of the target; yield the result after each block.

    Args:
        blocks: tallies of the active and the target arm, in order of time.

    For each block the e-value is the likelihood ratio of the two believed means against their pooled mean. With equal
    true means, whatever they are, its expectation is at most 1; also for values between 0 and 1, because the ratio is
    convex in the value. Bets are placed only on a higher active mean, so a lower one cannot raise it, either.
    Source: Turner, Ly and Grünwald, "Generic E-variables for exact sequential k-sample tests", 2024.
    """
    log_e, before, waiting = 0.0, (Tally(), Tally()), (Tally(), Tally())
    for block in blocks:
        waiting = waiting[0].plus(block[0]), waiting[1].plus(block[1])
        active, target = waiting
        # Under little traffic a block has users of one arm only. Blocks are joined until there are both: when that is
        # depends on the arrival of users, not on their results.
        if active.count and target.count:
            # Beliefs of earlier blocks only: a bet that knew its own block would win under the hypothesis, too.
            high, low = (each.belief for each in before)
            # No bet otherwise: the test is about a higher mean of the active arm, and a lower one must not count as
            # evidence.
            if high > low:
                # The best single mean under the hypothesis. Against it, the bet wins nothing on average if the arms do
                # not differ.
                pooled = (active.count * high + target.count * low) / (active.count + target.count)
                log_e += _log_ratio(active, high, pooled) + _log_ratio(target, low, pooled)
            before, waiting = (before[0].plus(active), before[1].plus(target)), (Tally(), Tally())
        # Counts and means include the observations that still wait; the e-value does not.
        yield Comparison(log_e, before[0].plus(waiting[0]), before[1].plus(waiting[1]))


def sample_ratio(active: int, target: int, share: float) -> float:
    """Return the logarithm of the e-value against "each user is in the active arm with probability `share`".

    A beta-binomial mixture around the planned share; it depends on the counts only, not on their order.
    """
    # At 0 % and at 100 % all users are in one arm by definition.
    if not 0 < share < 1:
        return 0.0
    a, b, count = CONCENTRATION * share, CONCENTRATION * (1 - share), active + target
    mixture = _log_beta(a + active, b + target) - _log_beta(a, b)
    return mixture - active * log(share) - (count - active) * log(1 - share)


def detectable(active: int, target: int, base: float, alpha: float) -> float:
    """Return the smallest increase over the mean `base` that this many observations usually show; `inf`: none does."""
    if not active or not target:
        return inf
    # Kept away from 0 and 1, whose logarithms are infinite.
    base = min(max(base, PSEUDO_HITS / (target + PSEUDO_COUNT)), 1 - 1e-9)
    needed = log(1 / alpha) + POWER_MARGIN + log(active + 1) / 2 + log(target + 1) / 2
    if _growth(active, target, 1 - 1e-9, base) < needed:
        return inf
    low, high = base, 1 - 1e-9
    # Fifty halvings reach the precision of a float; a loop until convergence could run for ever.
    for _ in range(50):
        # Bisection works because the growth rises with the higher mean.
        middle = (low + high) / 2
        low, high = (low, middle) if _growth(active, target, middle, base) >= needed else (middle, high)
    return high - base


def e_value(log_e: float) -> float:
    """Return an e-value for display; very large ones are cut off."""
    # Far beyond every threshold, and far below the overflow of a float.
    return exp(min(log_e, 50.0))


def _growth(active: int, target: int, high: float, low: float) -> float:
    """Return what the logarithm of the e-value has grown to, on average, if these are the true means."""
    pooled = (active * high + target * low) / (active + target)
    return _log_ratio(Tally(active, active * high), high, pooled) + _log_ratio(Tally(target, target * low), low, pooled)


def _log_ratio(seen: Tally, believed: float, pooled: float) -> float:
    return seen.hits * log(believed / pooled) + (seen.count - seen.hits) * log((1 - believed) / (1 - pooled))


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)
