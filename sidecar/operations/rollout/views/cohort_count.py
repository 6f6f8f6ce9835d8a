"""Counts the distinct cohorts that turns are bound in, and warns when they become many. Source: PF1-D-65, TN-83."""

from datetime import datetime, timedelta
from typing import Final

from sidecar.core.binding.cohort import Cohort
from sidecar.operations.ports import Clock
from sidecar.operations.rollout.store.ports import RolloutRecorder

WINDOW: Final = timedelta(days=1)
BOUND: Final = 64
"""Distinct cohorts a day. Ten sub-agents with independent ramps can create 1,024."""
MOST_TIMES_BOUND: Final = 16
"""The most cohorts that are remembered, as a multiple of the bound; further ones are not distinguished."""


class CohortCount:
    """Counts distinct cohorts, and warns once in a window.

    Attributes:
        bound: the limit: with more distinct cohorts in a window it warns. (`bound_in` is about turns that are bound.)
    """

    def __init__(self, clock: Clock, recorder: RolloutRecorder, bound: int = BOUND, window: timedelta = WINDOW) -> None:
        """Begin without cohorts."""
        self._clock = clock
        self._recorder = recorder
        self.bound = bound
        self._window = window
        self._seen: set[Cohort] = set()
        self._window_began: datetime | None = None
        self._warned = False

    @property
    def distinct(self) -> int:
        """The number of distinct cohorts in this window."""
        return len(self._seen)

    def bound_in(self, cohort: Cohort) -> None:
        """Count the cohort of a turn, in about a microsecond. Never raises, never waits."""
        now = self._clock.now()
        if self._window_began is None or now - self._window_began >= self._window:
            self._seen, self._window_began, self._warned = set(), now, False
        if len(self._seen) < self.bound * MOST_TIMES_BOUND:
            self._seen.add(cohort)
        if len(self._seen) > self.bound and not self._warned:
            self._warned = True
            self._recorder.anomaly(
                "many_cohorts",
                f"more than {self.bound} cohorts since {self._window_began.isoformat()}: end or join ramps",
            )
