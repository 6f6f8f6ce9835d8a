"""The counts of a run, updated while it runs."""

from collections import Counter, defaultdict

from subagents_loadgen.histogram import Histogram
from subagents_loadgen.loops import Sample


class Second:
    """One second of a run.

    Attributes:
        latencies: latencies, from the due time, of the operations that ended in this second.
        failed: number of these operations with a failed RPC.
    """

    def __init__(self) -> None:
        self.latencies, self.failed = Histogram(), 0

    def note(self, latency: float, *, failed: bool) -> None:
        """Count an operation."""
        self.latencies.record(latency)
        self.failed += failed


class Tally:
    """Counts samples. Of operations of the warm-up, only violations count.

    Attributes:
        whole: latency of every measured operation from its due time, including failed ones, because the server would
            look fast if timeouts were left out. `failed` shows whether fast errors lower the values.
        served: latency of every measured operation from its sending; equal to `whole` in a closed loop.
        failed: of `whole`, the operations in which an RPC failed.
        lag: how much later than due operations were sent: the generator's own delay, and waiting for a place.
        steps: each RPC by name, from its sending.
        outcomes: of calls, e.g. `SUCCEEDED`.
        errors: failed RPCs, e.g. `bind UNAVAILABLE DRAINING`.
        violations: broken promises, those of the warm-up too.
        warm_up: operations of the warm-up.
        by_kind, by_target: `whole`, by the kind of turn and by the sidecar.
        timeline: by second since the measured part began.
    """

    def __init__(self) -> None:
        self.whole, self.served, self.failed, self.lag = Histogram(), Histogram(), Histogram(), Histogram()
        self.steps: defaultdict[str, Histogram] = defaultdict(Histogram)
        self.outcomes: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.violations: Counter[str] = Counter()
        self.warm_up = 0
        self.last_ended = 0.0
        self.by_kind: defaultdict[str, Histogram] = defaultdict(Histogram)
        self.by_target: defaultdict[str, Histogram] = defaultdict(Histogram)
        self.timeline: defaultdict[int, Second] = defaultdict(Second)
        self._began: float | None = None

    def note(self, sample: Sample) -> None:
        """Count an operation that has ended."""
        self.violations.update(sample.finished.violations)
        if not sample.measured:
            self.warm_up += 1
            return
        self.last_ended = max(self.last_ended, sample.ended)
        latency, failed = sample.ended - sample.intended, bool(sample.finished.errors)
        self._began = sample.intended if self._began is None else self._began
        self.timeline[max(0, int(sample.ended - self._began))].note(latency, failed=failed)
        self.by_kind[sample.finished.kind].record(latency)
        self.by_target[sample.finished.target].record(latency)
        self.whole.record(sample.ended - sample.intended)
        self.served.record(sample.ended - sample.sent)
        self.lag.record(sample.sent - sample.intended)
        if sample.finished.errors:
            self.failed.record(sample.ended - sample.intended)
        for step, seconds in sample.finished.steps.items():
            self.steps[step].record(seconds)
        self.outcomes.update(sample.finished.outcomes)
        self.errors.update(sample.finished.errors)
