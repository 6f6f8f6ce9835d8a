"""The report as text for people."""

from collections.abc import Iterator, Mapping
from typing import Final

from subagents_loadgen.histogram import Histogram
from subagents_loadgen.report import PERCENTILES, Report, latencies_of
from subagents_loadgen.tally import Tally

BAR: Final = 40
MILLISECONDS: Final = 1e3


def as_text(report: Report) -> str:
    """Return the report for people."""
    tally = report.tally
    sections = [
        [
            f"{tally.whole.count} operations measured in {report.seconds:.1f} s, "
            f"{report.throughput:.1f}/s without error, {tally.failed.count} failed, {report.unsent} unsent",
            f"at most {report.most_running} in flight; {tally.warm_up} more for warming up; seed {report.plan.seed}",
        ],
        list(_table(tally)),
        list(_plot(tally.whole)),
        [
            f"{'kept' if one.kept(value) else 'BROKEN'}: {one.text} ({_measured(value)})"
            for one, value in report.verdicts()
        ],
        list(_counts("outcomes of calls", tally.outcomes)),
        list(_counts("failed RPCs", tally.errors)),
        list(_counts("VIOLATIONS of the contract", tally.violations)) or ["no violation of the contract"],
        [f"warning: {each}" for each in report.warnings()],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _measured(value: float | None) -> str:
    return "not measured" if value is None else f"measured {value:.4g}"


def _table(tally: Tally) -> Iterator[str]:
    headings = ("count", *(f"p{percent:g}" for percent in PERCENTILES), "max")
    yield f"{'latency in ms':<22}" + "".join(f"{heading:>11}" for heading in headings)
    for name, latencies in latencies_of(tally):
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
