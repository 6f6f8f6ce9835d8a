"""`sidecar eval`: run, compare, scale, sample, add. Found by the sidecar's command line through its entry point."""

import asyncio
import logging
import os
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console

from subagents_client import SidecarClient, SubagentsError
from subagents_evals.arguments import measuring, parse_arguments
from subagents_evals.inputs.configuration import MANIFEST, SETS, UnusableConfiguration
from subagents_evals.inputs.sampling import Redactor, add_labelled, sampled, write_sampled
from subagents_evals.inputs.strict_yaml import UnusableFile
from subagents_evals.measures.comparison import UnusableRevision, checked_out, compared, revisions_of
from subagents_evals.measures.manifest import GateStep, ManifestUnchanged, add_results, results_of
from subagents_evals.measures.metrics import share_of
from subagents_evals.measures.results import Run, write_run
from subagents_evals.measures.thresholds import PRE_MERGE, shortfalls, thresholds_of, with_judges
from subagents_evals.report.mlflow_log import NoTracking, log_run
from subagents_evals.report.page import page_of, scale_page
from subagents_evals.report.terminal import counting, percent, progress, show_comparison, show_run, show_scale
from subagents_evals.runs.evaluation_run import Measuring, ModelFailed, NoCasesSelected, Prepared, prepare, run
from subagents_evals.runs.scaling import scaled
from subagents_evals.runs.stage import StageFailed

FELL_SHORT: Final = 1
NOT_MEASURED: Final = 2
WIDTH: Final = 120
"""Number of columns if the output is not a terminal, e.g. a pipe."""
PROBLEMS: Final = (
    UnusableFile,
    UnusableConfiguration,
    UnusableRevision,
    NoCasesSelected,
    StageFailed,
    ModelFailed,
    ManifestUnchanged,
    NoTracking,
    SubagentsError,
    OSError,
)


def main(arguments: Sequence[str]) -> int:
    """Run one command; return its exit code (`asking.EXIT_CODES`)."""
    asked = parse_arguments(arguments)
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    console = Console(width=WIDTH if piped else None)
    try:
        with _silent_sub_agents():
            return COMMANDS[asked.command](asked, console)
    except PROBLEMS as problem:
        Console(stderr=True).print(str(problem), style="red", highlight=False, markup=False, soft_wrap=True)
        return NOT_MEASURED
    except KeyboardInterrupt:
        return NOT_MEASURED


@contextmanager
def _silent_sub_agents() -> Iterator[None]:
    """Do not log failures of sub-agents: scripted failures are part of a case, and would fill the screen."""
    log = logging.getLogger("subagents_client.runner")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


def _run(asked: Namespace, console: Console) -> int:
    options = measuring(asked)
    step = _step(asked)
    manifest = asked.manifest or (options.folder / MANIFEST if (options.folder / MANIFEST).is_file() else None)
    if step is not None and manifest is None:
        raise ManifestUnchanged(f"{options.folder / MANIFEST}: no such file to record results in; see docs/gates.md")
    if step is not None and not options.choice.whole:
        raise NoCasesSelected("--record needs all cases of a sub-agent; use no filter, or --slot alone")
    prepared = prepare(options)
    if step is not None and prepared.gaps:
        raise NoCasesSelected("--record needs a complete set; not covered:\n" + "\n".join(prepared.gaps))
    definitions = prepared.configuration.definitions
    ids = [one.id for one in definitions if not options.choice.slots or one.slot in options.choice.slots]
    thresholds = thresholds_of(manifest, ids, step.gate if step else PRE_MERGE)
    done = _played(prepared, options, console)
    judged = with_judges(thresholds, prepared.golden.suite, done.definitions)
    short = list(shortfalls(done, judged, partial=not options.choice.whole))
    if asked.json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode({"short": short, "metrics": done.metrics})))
    else:
        show_run(console, done, short)
    kept: list[str] = []
    if asked.report:
        _write(asked.report, {"report.html": page_of(done, short)}, {"run.json": done})
        kept.append(f"report: {asked.report / 'report.html'}")
    if step is not None and manifest is not None:
        results = results_of(done, step, options.choice.slots, asked.evidence)
        add_results(manifest, results)
        kept.append(f"recorded for {step.gate} in {manifest}: {', '.join(one['sub_agent'] for one in results)}")
    if asked.mlflow:
        log_run(done, asked.mlflow, page_of(done, short))
        kept.append(f"logged to {asked.mlflow}: run {done.run_id}")
    for line in () if asked.json else kept:
        console.print(line, soft_wrap=True, highlight=False, markup=False)
    return FELL_SHORT if short or done.gaps else 0


def _compare(asked: Namespace, console: Console) -> int:
    options = measuring(asked)
    sets = options.sets or options.folder / SETS
    with tempfile.TemporaryDirectory(prefix="eval-compare-") as name:
        runs = []
        for place, revision in enumerate(revisions_of(asked.span)):
            folder = checked_out(options.folder, revision, Path(name) / str(place))
            wanted = replace(options, folder=folder, sets=sets)
            prepared = prepare(wanted, earlier=not place)
            runs.append(_played(prepared, wanted, console, revision or "the working tree"))
    comparison = compared(*runs)
    show_comparison(console, comparison)
    if asked.report:
        worse = [f"{one.name} got worse: {', '.join(one.worse)} (p = {one.p:.4f})" for one in comparison.worse]
        page = page_of(comparison.after, worse, comparison)
        _write(asked.report, {"report.html": page}, {"before.json": comparison.before, "after.json": comparison.after})
    return FELL_SHORT if comparison.worse else 0


def _scale(asked: Namespace, console: Console) -> int:
    options = measuring(asked)
    prepared = prepare(options)
    with counting(console, str(options.folder)) as counted:
        points = asyncio.run(scaled(prepared, options, asked.steps, counted))
    show_scale(console, points)
    if asked.report:
        _write(asked.report, {"scale.html": scale_page(points, str(options.folder), options.model)}, {})
    return 0


def _sample(asked: Namespace, console: Console) -> int:
    words = asked.redact.read_text("utf-8").split("\n") if asked.redact else []
    redactor = Redactor([one.strip() for one in words if one.strip()])

    async def taken() -> int:
        async with SidecarClient.connect(asked.target, boot_secret_file=asked.boot_secret_file) as client:
            turns = await sampled(client, asked.seed, asked.turns, asked.language, redactor)
        write_sampled(asked.seed, turns, asked.file)
        return len(turns)

    told = f"{asyncio.run(taken())} turns in {asked.file}; read and label them, then: sidecar eval add"
    console.print(told, soft_wrap=True)
    return 0


def _add(asked: Namespace, console: Console) -> int:
    added = add_labelled(asked.file, asked.sets or asked.folder / SETS)
    share = share_of(len(added.routed_right), len(added.cases))
    console.print(
        f"{len(added.cases)} cases added; production had routed {percent(share)} of them as labelled "
        f"(95 %: {share.low * 100:.0f} to {share.high * 100:.0f})",
        soft_wrap=True,
    )
    for slot in sorted({slot for case in added.cases for slot in case.calls}):
        mine = [case.id for case in added.cases if slot in case.calls]
        right = sum(one in added.routed_right for one in mine)
        console.print(f"  {slot}: {percent(share_of(right, len(mine)))} of {len(mine)}")
    return 0


COMMANDS: Final[Mapping[str, Callable[[Namespace, Console], int]]] = {
    "run": _run,
    "compare": _compare,
    "scale": _scale,
    "sample": _sample,
    "add": _add,
}


def _played(prepared: Prepared, options: Measuring, console: Console, title: str = "") -> Run:
    with progress(console, title or str(options.folder), prepared.trials * options.how.repetitions) as shown:
        return asyncio.run(run(prepared, options, shown.told))


def _step(asked: Namespace) -> GateStep | None:
    if asked.record is None:
        return None
    try:
        return GateStep(asked.record, asked.from_percent, asked.to_percent)
    except ValueError as problem:
        raise ManifestUnchanged(str(problem)) from None


def _write(folder: Path, pages: Mapping[str, str], runs: Mapping[str, Run]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, page in pages.items():
            (folder / name).write_text(page, "utf-8")
        for name, one in runs.items():
            write_run(one, folder / name)
    except OSError as error:
        raise UnusableFile(f"{folder}: the report cannot be written ({type(error).__name__})") from None
