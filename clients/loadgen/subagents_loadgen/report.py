"""What came out: as a value for programs, and as text for people."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from subagents_loadgen.histogram import Histogram
from subagents_loadgen.loops import Progress
from subagents_loadgen.plan import Load, Mix
from subagents_loadgen.tally import Tally

FORMAT: Final = 1
"""Of the JSON; raised when a field changes its meaning or goes away."""
PERCENTILES: Final = (50.0, 90.0, 99.0, 99.9)
STEPS: Final = ("bind", "first frame", "dispatch", "resume", "cancel", "end")
MICROSECONDS: Final = 1e6
MILLISECONDS: Final = 1e3
NOTABLE_LAG: Final = 0.01
"""Seconds by which the generator may be late in one of a hundred operations before it says so."""
ENOUGH: Final = 1000
"""Operations, for a percentile of 99.9 to be more than the maximum."""
BAR: Final = 40


@dataclass(frozen=True, slots=True)
class Report:
    """A finished run.

    Attributes:
        interrupted: somebody stopped it before its end.
    """

    load: Load
    mix: Mix
    seed: int
    channels: int
    tally: Tally
    progress: Progress
    interrupted: bool

    @property
    def seconds(self) -> float:
        """How long the measured part took, with the answers that came late."""
        return max(self.tally.last_ended - self.progress.began, 0.0)

    @property
    def throughput(self) -> float:
        """Operations a second that ended without an error."""
        return (self.tally.whole.count - self.tally.failed.count) / self.seconds if self.seconds else 0.0

    @property
    def share_failed(self) -> float:
        """Of the measured operations that were due."""
        due = self.tally.whole.count + self.progress.unsent
        return (self.tally.failed.count + self.progress.unsent) / due if due else 0.0

    def warnings(self) -> Sequence[str]:
        """Return what makes the numbers mean less than they seem to."""
        found = []
        if self.interrupted:
            found.append("interrupted before its end")
        if self.progress.unsent:
            found.append(
                f"{self.progress.unsent} operations were due and never sent: the percentiles are too good, "
                "the server cannot keep this rate"
            )
        if not self.tally.whole.count:
            found.append("nothing was measured: the warm-up took up everything")
        elif self.tally.whole.count < ENOUGH:
            found.append(f"with {self.tally.whole.count} operations, p99.9 is hardly more than the maximum")
        full = self.progress.most_running >= self.load.in_flight
        if self.load.rate is not None and full:
            found.append(
                f"all {self.load.in_flight} places were taken at some time; waiting for one is part of the latency"
            )
        if self.load.rate is not None and not full and self.tally.lag.percentile(99) > NOTABLE_LAG:
            found.append(
                "one operation in a hundred was sent more than 10 ms late: the generator itself was the bottleneck"
            )
        return found


def as_json(report: Report) -> dict[str, Any]:
    """Return everything; latencies are in microseconds."""
    load, mix, tally, progress = report.load, report.mix, report.tally, report.progress
    return {
        "format": FORMAT,
        "run": {
            "scenario": mix.scenario.value,
            "loop": "closed" if load.rate is None else "open",
            "rate": load.rate,
            "arrivals": None if load.rate is None else load.arrivals.value,
            "in_flight": load.in_flight,
            "seconds": load.seconds,
            "requests": load.requests,
            "warm_up_seconds": load.warm_up,
            "fan_out": {str(size): weight for size, weight in mix.fan_out},
            "resume": mix.resume,
            "cancel": mix.cancel,
            "deadline_seconds": mix.deadline,
            "channels": report.channels,
            "seed": report.seed,
        },
        "operations": {
            "measured": tally.whole.count,
            "failed": tally.failed.count,
            "unsent": progress.unsent,
            "warm_up": tally.warm_up,
            "most_in_flight": progress.most_running,
            "seconds": report.seconds,
            "per_second_without_error": report.throughput,
        },
        "latency_us": {_key(name): _numbers(each) for name, each in _latencies(tally)},
        "outcomes": dict(tally.outcomes.most_common()),
        "errors": dict(tally.errors.most_common()),
        "violations": dict(tally.violations.most_common()),
        "warnings": list(report.warnings()),
    }


def as_text(report: Report) -> str:
    """Return the report for people."""
    tally, progress = report.tally, report.progress
    sections = [
        [
            f"{tally.whole.count} operations measured in {report.seconds:.1f} s, "
            f"{report.throughput:.1f}/s without error, {tally.failed.count} failed, {progress.unsent} unsent",
            f"at most {progress.most_running} in flight; {tally.warm_up} more for warming up; seed {report.seed}",
        ],
        list(_table(tally)),
        list(_plot(tally.whole)),
        list(_counts("outcomes of calls", tally.outcomes)),
        list(_counts("failed RPCs", tally.errors)),
        list(_counts("VIOLATIONS of the contract", tally.violations)) or ["no violation of the contract"],
        [f"warning: {each}" for each in report.warnings()],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _latencies(tally: Tally) -> Iterator[tuple[str, Histogram]]:
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


def _table(tally: Tally) -> Iterator[str]:
    headings = ("count", *(f"p{percent:g}" for percent in PERCENTILES), "max")
    yield f"{'latency in ms':<22}" + "".join(f"{heading:>11}" for heading in headings)
    for name, latencies in _latencies(tally):
        values = (*(latencies.percentile(percent) for percent in PERCENTILES), latencies.most)
        yield f"{name:<22}{latencies.count:>11}" + "".join(f"{value * MILLISECONDS:>11.2f}" for value in values)


def _plot(latencies: Histogram) -> Iterator[str]:
    powers = list(latencies.by_power_of_two())
    most = max((count for _, count in powers), default=0)
    if most:
        yield "whole, since due, by doubling"
    for bound, count in powers:
        bar = "#" * max(round(count / most * BAR), 1 if count else 0)
        yield f"  below {bound * MILLISECONDS:>10.3f} ms {count:>9}  {bar}".rstrip()


def _counts(title: str, counts: Mapping[str, int]) -> Iterator[str]:
    if counts:
        yield title
    for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        yield f"  {count:>9}  {name}"
