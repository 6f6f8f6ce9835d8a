"""What a run has come to, counted while it goes."""

from collections import Counter, defaultdict

from subagents_loadgen.histogram import Histogram
from subagents_loadgen.loops import Sample


class Tally:
    """Counts samples. Operations of the warm-up are looked at for violations only.

    Attributes:
        whole: latency of every measured operation from when it was due, whatever became of it: an error that comes
            fast must not make the server look fast, and a timeout that is left out must not either.
        served: the same from when it was sent; equal in a closed loop.
        failed: of `whole`, the operations in which an RPC failed.
        lag: how much later than due operations were sent: the generator's own delay, and waiting for a place.
        steps: each RPC by name, from its sending.
        outcomes: of calls, e.g. `SUCCEEDED`.
        errors: failed RPCs, e.g. `bind UNAVAILABLE DRAINING`.
        violations: broken promises, those of the warm-up too.
        warm_up: operations of the warm-up.
    """

    def __init__(self) -> None:
        self.whole, self.served, self.failed, self.lag = Histogram(), Histogram(), Histogram(), Histogram()
        self.steps: defaultdict[str, Histogram] = defaultdict(Histogram)
        self.outcomes: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.violations: Counter[str] = Counter()
        self.warm_up = 0
        self.last_ended = 0.0

    def note(self, sample: Sample) -> None:
        """Count an operation that has ended."""
        self.violations.update(sample.finished.violations)
        if not sample.measured:
            self.warm_up += 1
            return
        self.last_ended = max(self.last_ended, sample.ended)
        self.whole.record(sample.ended - sample.intended)
        self.served.record(sample.ended - sample.sent)
        self.lag.record(sample.sent - sample.intended)
        if sample.finished.errors:
            self.failed.record(sample.ended - sample.intended)
        for step, seconds in sample.finished.steps.items():
            self.steps[step].record(seconds)
        self.outcomes.update(sample.finished.outcomes)
        self.errors.update(sample.finished.errors)
