"""The evidence about one step of a ramp: observations of its users, by arm, in blocks of time.

The arms are the users of the active definition and those of the target. A watchdog reads the evidence
(`GetRampEvidence`) and compares the arms. Each user counts once in each measure, with the first observation since the
step: the calls of one user depend on each other, and the ramp assigns users, not calls, to arms. Only users whom the
ramp alone has assigned are counted; flags and cohorts choose users by other criteria.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct, field

from sidecar.core.identifiers import DefinitionId, Digest, Slot

ARMS: Final = ("active", "target")
LATENCY_BOUNDS: Final = tuple(0.01 * 2 ** (half / 2) for half in range(28))
"""Seconds, from 10 ms to two minutes."""
TOKEN_BOUNDS: Final = tuple(16.0 * 2 ** (half / 2) for half in range(32))
"""From 16 tokens to 750,000."""
MOST_SCORES: Final = 20
"""The most names of scores that are counted. Clients choose the names, so they could fill the memory."""
MOST_USERS: Final = 200_000
"""The most users in each measure. Further users are not counted, and `full` is set."""
SCHEDULE: Final = ((timedelta(hours=1), timedelta(minutes=1)), (timedelta(hours=12), timedelta(minutes=5)))
"""Pairs of an age of the step and a length: until the step has this age, its blocks have this length.

After the last age of the list, blocks have `LAST_LENGTH`. The lengths are fixed in advance: blocks that depended on the
observations would invalidate the watchdog's statistical tests.
"""
LAST_LENGTH: Final = timedelta(minutes=30)


class RampStep(Struct, frozen=True):
    """A period of a rollout in which active definition, target and ramp do not change.

    Attributes:
        since: when the ramp was set.
        curve: declared steps in basis points; empty: none.
    """

    slot: Slot
    active: Digest
    target: Digest
    ramp: int
    since: datetime
    active_id: DefinitionId
    target_id: DefinitionId
    revision: int = 0
    curve: tuple[int, ...] = ()


class ScoreSum(Struct):
    """The number and the sum of the scores of one name."""

    count: int = 0
    total: float = 0.0


class ArmBlock(Struct):
    """One arm in one block of time.

    Attributes:
        users: number of users who were assigned to the arm, whether they called or not.
        calls: number of first calls.
        failures: number of failed first calls, by reason.
        latency, tokens: number of first calls in each bucket.
    """

    users: int = 0
    calls: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    latency: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BOUNDS) + 1))
    tokens: list[int] = field(default_factory=lambda: [0] * (len(TOKEN_BOUNDS) + 1))
    scores: dict[str, ScoreSum] = field(default_factory=dict)


class ArmEvidence:
    """Counts the observations of the users of one step.

    Args:
        step: the step.
        mark: returns a short hash of a user, so that no user ids are stored.

    Attributes:
        blocks: by number, then by arm.
        full: some users or scores were not counted, because a limit was reached.
    """

    def __init__(self, step: RampStep, mark: Callable[[str], bytes]) -> None:
        """Begin without observations."""
        self.step, self.full = step, False
        self.blocks: dict[int, dict[str, ArmBlock]] = {}
        self._mark = mark
        self._seen: dict[str, dict[bytes, None]] = {}

    def assigned(self, user: str, arm: str, at: datetime) -> None:
        """Count a user who was bound."""
        if self._first("users", user):
            self._block(arm, at).users += 1

    def called(self, user: str, arm: str, at: datetime, reason: str, took: float | None) -> None:
        """Count a call that has its outcome. `reason`: of the failure; empty for a success."""
        if not self._first("calls", user):
            return
        block = self._block(arm, at)
        block.calls += 1
        if reason:
            block.failures[reason] = block.failures.get(reason, 0) + 1
        if took is not None:
            # Bucket n holds values up to bound n; the last bucket holds all above the last bound.
            block.latency[bisect_left(LATENCY_BOUNDS, took)] += 1

    def spent(self, user: str, arm: str, at: datetime, tokens: int) -> None:
        """Count the tokens of a call."""
        if self._first("tokens", user):
            self._block(arm, at).tokens[bisect_left(TOKEN_BOUNDS, tokens)] += 1

    def scored(self, user: str, arm: str, at: datetime, name: str, value: float) -> None:
        """Count a score."""
        measure = f"score {name}"
        # `_seen` also has the three measures that are no scores.
        if measure not in self._seen and len(self._seen) >= MOST_SCORES + len(("users", "calls", "tokens")):
            self.full = True
        elif self._first(measure, user):
            known = self._block(arm, at).scores.setdefault(name, ScoreSum())
            known.count += 1
            known.total += value

    def _first(self, measure: str, user: str) -> bool:
        # Per measure: a user without tokens so far may still count for them later.
        seen, mark = self._seen.setdefault(measure, {}), self._mark(user)
        # This also makes it harmless to count the same facts twice, after a request that was cancelled half-way.
        if mark in seen:
            return False
        # Not counted and not replaced: dropping a known user would count that user again later.
        if len(seen) >= MOST_USERS:
            self.full = True
            return False
        seen[mark] = None
        return True

    def _block(self, arm: str, at: datetime) -> ArmBlock:
        number = block_of(at - self.step.since)
        # Both arms at once: the watchdog's statistical tests compare the arms block by block.
        return self.blocks.setdefault(number, {each: ArmBlock() for each in ARMS})[arm]

    def in_order(self) -> list[Mapping[str, ArmBlock]]:
        """Return the blocks, oldest first."""
        return [self.blocks[number] for number in sorted(self.blocks)]


def block_of(age: timedelta) -> int:
    """Return the number of the block at an age of the step."""
    number, begin = 0, timedelta()
    for end, length in SCHEDULE:
        if age < end:
            # Not below 0: the time of a fact is by its sidecar's clock, which may be behind the one that set the ramp.
            return number + max(0, (age - begin) // length)
        # All blocks of this part of the schedule precede; their lengths divide the part without a rest.
        number, begin = number + (end - begin) // length, end
    return number + (age - begin) // LAST_LENGTH
