"""The terminal report during a run and at its end."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from subagents_evals.measures.comparison import Comparison
from subagents_evals.measures.metrics import Figures, Share
from subagents_evals.measures.results import Run
from subagents_evals.measures.trial import Trial
from subagents_evals.runs.scaling import Point

MOST_FAILURES: Final = 20
COLUMNS: Final = ("", "cases", "routing", "95 %", "switch", "recall", "admits", "pass", "p95 s")
"""Shares are in percent: exact routing and its confidence interval, routing of switches, entities that reached the
sub-agent, failures that the answer admits, cases without a failure. Last: seconds until the answer."""


class TerminalReport:
    """Counts trials while they are played."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._failed = 0
        self._task = progress.add_task("", total=total, failed="")

    def told(self, trial: Trial) -> None:
        """Count a trial that has ended."""
        self._failed += not trial.passed
        self._progress.update(self._task, advance=1, failed=f"{self._failed} failed" if self._failed else "")


@contextmanager
def progress(console: Console, title: str, total: int) -> Iterator[TerminalReport]:
    """Show a progress bar, if the output is a terminal."""
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[failed]}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        yield TerminalReport(shown, total)


@contextmanager
def counting(console: Console, title: str) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on a terminal. Yields a function, to be called at each step with the number of all steps."""
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("", total=None)
        yield lambda total: shown.update(task, advance=1, total=total)


def show_run(console: Console, run: Run, short: Sequence[str]) -> None:
    """Show the table of a run, its first failures, and the thresholds that it does not meet."""
    table = Table(
        title=f"{run.configuration}: {run.model}{' (offline)' if run.offline and run.model != 'offline' else ''}"
    )
    for name in COLUMNS:
        table.add_column(name, justify="left" if not name else "right", no_wrap=True)
    for name, figures in (("all", run.metrics.all), *run.metrics.by_slot.items(), *run.metrics.by_language.items()):
        table.add_row(*_row(name, figures), end_section=name == "all" or name == list(run.metrics.by_slot)[-1])
    console.print(table)
    failed = [one for one in run.trials if not one.passed]
    for one in failed[:MOST_FAILURES]:
        console.print(Text(f"  {one.case_id}: {'; '.join(one.failures)}"), highlight=False, soft_wrap=True)
    if len(failed) > MOST_FAILURES:
        console.print(f"  and {len(failed) - MOST_FAILURES} more; the report has all transcripts")
    for gap in run.gaps:
        console.print(Text(f"not covered: {gap}", style="yellow"), soft_wrap=True)
    for sentence in short:
        console.print(Text(f"threshold not met: {sentence}", style="red"), soft_wrap=True)
    console.print(f"{len(run.trials)} trials in {run.seconds:.1f} s")


def show_comparison(console: Console, comparison: Comparison) -> None:
    """Show the groups of a comparison, and which cases got worse or better."""
    table = Table(title="paired case by case")
    for name in ("", "cases", "right in both", "worse", "better", "p (McNemar)"):
        table.add_column(name, justify="left" if not name else "right", no_wrap=True)
    for one in comparison.groups:
        style = "red" if one.significantly_worse else ""
        cells = (one.cases, one.both, len(one.worse), len(one.better))
        table.add_row(one.name, *map(str, cells), f"{one.p:.4f}", style=style)
    console.print(table)
    console.print(Text(f"changed: {', '.join(comparison.changed) or 'no definition of a sub-agent'}"), soft_wrap=True)
    for name, ids in (("worse", comparison.groups[0].worse), ("better", comparison.groups[0].better)):
        if ids:
            console.print(Text(f"{name}: {', '.join(ids)}"), highlight=False, soft_wrap=True)


def show_scale(console: Console, points: Sequence[Point]) -> None:
    """Show accuracy, tokens and cost by number of sub-agents."""
    table = Table(title="the routing call, by number of sub-agents")
    for name in ("sub-agents", "routing", "95 % CI", "input tokens", "$ per 1,000 calls", "ms"):
        table.add_column(name, justify="right")
    for one in points:
        cost = "" if one.cost is None else f"{one.cost * 1000:.3f}"
        cells = (percent(one.routing), _interval(one.routing), f"{one.input_tokens:,.0f}", cost)
        table.add_row(str(one.sub_agents), *cells, f"{one.seconds * 1000:,.0f}")
    console.print(table)


def percent(share: Share) -> str:
    """Return a share in percent; a dash for nothing."""
    return "-" if share.value is None else f"{share.value * 100:.1f} %"


def _plain(share: Share) -> str:
    return "-" if share.value is None else f"{share.value * 100:.1f}"


def _interval(share: Share) -> str:
    return "-" if share.value is None else f"{share.low * 100:.0f}-{share.high * 100:.0f}"


def _row(name: str, figures: Figures) -> Sequence[str]:
    p95 = figures.seconds_to_answer.p95
    shares = (figures.switches, figures.entities, figures.admitted, figures.passed)
    return (
        name,
        str(figures.cases),
        _plain(figures.routing),
        _interval(figures.routing),
        *map(_plain, shares),
        "-" if p95 is None else f"{p95:.2f}",
    )
