"""The report of a run, as a value and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from subagents_loadgen.histogram import Histogram
from subagents_loadgen.loops import Progress
from subagents_loadgen.plan import Load, Mix, Plan
from subagents_loadgen.tally import Tally
from subagents_loadgen.thresholds import Threshold, latency_in, statistic_of

FORMAT: Final = 2
"""Version of the JSON format; increases when a field changes its meaning or is removed."""
PERCENTILES: Final = (50.0, 90.0, 99.0, 99.9)
STEPS: Final = ("bind", "first frame", "dispatch", "resume", "cancel", "end")
MICROSECONDS: Final = 1e6
NOTABLE_LAG: Final = 0.01
"""Seconds by which the generator may be late in one of a hundred operations before it says so."""
ENOUGH: Final = 1000
"""Number of operations from which the 99.9th percentile differs from the maximum."""
CURVE: Final = (
    *range(1, 90),
    *(90 + part / 4 for part in range(36)),
    *(99 + part / 20 for part in range(18)),
    99.9,
    99.95,
    99.99,
    100,
)
"""Percentiles of the curve that the report draws."""


@dataclass(frozen=True, slots=True)
class Report:
    """A finished run.

    Attributes:
        plan: the plan of the run.
        tally: the counts of all stages.
        stages: progress of each stage; fewer than planned if the run was interrupted.
        left_open: number of turns that could not be ended.
        interrupted: whether the run was stopped before its end.
    """

    plan: Plan
    tally: Tally
    stages: Sequence[Progress]
    left_open: int = 0
    interrupted: bool = False

    @property
    def unsent(self) -> int:
        """Number of operations that were due but did not begin."""
        return sum(one.unsent for one in self.stages)

    @property
    def most_running(self) -> int:
        """Maximum number of operations at a time."""
        return max((one.most_running for one in self.stages), default=0)

    @property
    def seconds(self) -> float:
        """Duration of the measured part, including late responses."""
        return max(self.tally.last_ended - self.stages[0].began, 0.0) if self.stages else 0.0

    @property
    def throughput(self) -> float:
        """Operations without an error, per second."""
        return (self.tally.whole.count - self.tally.failed.count) / self.seconds if self.seconds else 0.0

    @property
    def share_failed(self) -> float:
        """Share of the measured operations that failed or did not begin."""
        due = self.tally.whole.count + self.unsent
        return (self.tally.failed.count + self.unsent) / due if due else 0.0

    def value_of(self, metric: str) -> float | None:
        """Return the value of a metric; None if it was not measured."""
        tally = self.tally
        single = {
            "throughput": self.throughput,
            "failed": self.share_failed,
            "unsent": self.unsent,
            "violations": tally.violations.total(),
            "left_open": self.left_open,
        }
        if metric in single:
            return single[metric]
        if metric.startswith("reason."):
            reason = metric.removeprefix("reason.")
            counts = [*tally.errors.items(), *tally.outcomes.items()]
            return sum(count for name, count in counts if name.split()[-1] == reason)
        name, statistic = latency_in(metric)
        if name.startswith("turn."):
            found = tally.by_kind.get(name.removeprefix("turn."), Histogram())
        else:
            latencies = {"whole": tally.whole, "sent": tally.served, "lag": tally.lag, "failed_whole": tally.failed}
            found = latencies.get(name) or tally.steps.get(name.replace("_", " "), Histogram())
        return statistic_of(found, statistic)

    def verdicts(self) -> Sequence[tuple[Threshold, float | None]]:
        """Return each threshold with the measured value."""
        return [(one, self.value_of(one.metric)) for one in self.plan.thresholds]

    def warnings(self) -> Sequence[str]:
        """Return warnings about circumstances that make the numbers less meaningful."""
        found = []
        if self.interrupted:
            found.append("interrupted before its end")
        if self.left_open:
            found.append(f"{self.left_open} turns could not be ended; the sidecar ends them when their time is over")
        if self.unsent:
            found.append(
                f"{self.unsent} operations were due and never sent: the percentiles are too good, "
                "the server cannot keep this rate"
            )
        if not self.tally.whole.count:
            found.append("nothing was measured: the warm-up took up everything")
        elif self.tally.whole.count < ENOUGH:
            found.append(f"with {self.tally.whole.count} operations, p99.9 is hardly more than the maximum")
        open_loops = [
            (load, stage) for load, stage in zip(self.plan.stages, self.stages, strict=False) if load.rate is not None
        ]
        full = [load for load, stage in open_loops if stage.most_running >= load.in_flight]
        found += [
            f"all {one.in_flight} places were taken at some time; waiting for one is part of the latency"
            for one in full
        ]
        if open_loops and not full and self.tally.lag.percentile(99) > NOTABLE_LAG:
            found.append(
                "one operation in a hundred was sent more than 10 ms late: the generator itself was the bottleneck"
            )
        return found


def as_json(report: Report) -> dict[str, Any]:
    """Return the report as JSON values; latencies are in microseconds."""
    plan, tally = report.plan, report.tally
    return {
        "format": FORMAT,
        "run": {
            "scenario": plan.name,
            "targets": {one.address: one.weight for one in plan.targets},
            "turns": [_of_mix(one) for one in plan.mixes],
            "stages": [_of_stage(one) for one in plan.stages],
            "channels": plan.channels,
            "seed": plan.seed,
        },
        "operations": {
            "measured": tally.whole.count,
            "failed": tally.failed.count,
            "unsent": report.unsent,
            "left_open": report.left_open,
            "warm_up": tally.warm_up,
            "most_in_flight": report.most_running,
            "seconds": report.seconds,
            "per_second_without_error": report.throughput,
        },
        "latency_us": {_key(name): _numbers(each) for name, each in latencies_of(tally)},
        "by_turn_us": {name: _numbers(each) for name, each in sorted(tally.by_kind.items())},
        "by_target_us": {name: _numbers(each) for name, each in sorted(tally.by_target.items())},
        "percentiles_us": [[one, _microseconds(tally.whole.percentile(one))] for one in CURVE],
        "timeline": [_of_second(second, tally) for second in range(max(tally.timeline, default=-1) + 1)],
        "outcomes": dict(tally.outcomes.most_common()),
        "errors": dict(tally.errors.most_common()),
        "violations": dict(tally.violations.most_common()),
        "thresholds": [
            {"threshold": one.text, "measured": value, "kept": one.kept(value)} for one, value in report.verdicts()
        ],
        "warnings": list(report.warnings()),
    }


def _of_mix(mix: Mix) -> dict[str, Any]:
    return {
        "name": mix.name,
        "weight": mix.weight,
        "rpc": mix.scenario.value,
        "calls": {str(count): weight for count, weight in mix.fan_out},
        "size": {str(count): weight for count, weight in mix.sizes},
        "resume": mix.resume,
        "reconnect": mix.reconnect,
        "cancel": mix.cancel,
        "slow_reader_seconds": mix.slow_reader,
        "deadline_seconds": mix.deadline,
    }


def _of_stage(load: Load) -> dict[str, Any]:
    return {
        "name": load.name,
        "loop": "closed" if load.rate is None else "open",
        "rate": load.rate,
        "ramp_to": load.ramp_to,
        "arrivals": None if load.rate is None else load.arrivals.value,
        "in_flight": load.in_flight,
        "seconds": load.seconds,
        "requests": load.requests,
        "warm_up_seconds": load.warm_up,
    }


def _of_second(second: int, tally: Tally) -> dict[str, float]:
    found = tally.timeline.get(second)
    if found is None:
        return {"second": second, "ended": 0, "failed": 0}
    p50, p99 = (_microseconds(found.latencies.percentile(one)) for one in (50, 99))
    most = _microseconds(found.latencies.most)
    return {
        "second": second, "ended": found.latencies.count, "failed": found.failed, "p50": p50, "p99": p99, "max": most,
    }  # fmt: skip


def latencies_of(tally: Tally) -> Iterator[tuple[str, Histogram]]:
    """Yield every latency that was measured, with its name."""
    yield "whole, since due", tally.whole
    yield "whole, since sent", tally.served
    yield "sent later than due", tally.lag
    if tally.failed.count:
        yield "failed, since due", tally.failed
    for step in STEPS:
        if step in tally.steps:
            yield step, tally.steps[step]


def _key(name: str) -> str:
    return name.replace(",", "").replace(" ", "_")


def _numbers(latencies: Histogram) -> dict[str, float]:
    percentiles = {f"p{percent:g}": _microseconds(latencies.percentile(percent)) for percent in PERCENTILES}
    return {
        "count": latencies.count,
        "mean": _microseconds(latencies.mean),
        "min": _microseconds(latencies.least),
        **percentiles,
        "max": _microseconds(latencies.most),
    }


def _microseconds(seconds: float) -> float:
    return round(seconds * MICROSECONDS, 1)
