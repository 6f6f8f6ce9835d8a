"""The command line of `sidecar eval`."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from subagents_evals.inputs.sampling import MOST_TURNS, TURNS
from subagents_evals.measures.manifest import GATES
from subagents_evals.measures.results import OFFLINE
from subagents_evals.runs.evaluation_run import CaseSelection, Measuring
from subagents_evals.runs.play_cases import CONCURRENT, CasePlayer
from subagents_evals.runs.scaling import STEPS

EXIT_CODES: Final = (
    "exit codes: 0 all thresholds are met; 1 one is not, the set has gaps, or a comparison is significantly worse;"
    " 2 nothing was measured or recorded: a file, a configuration, an option or a model cannot be used, or the sidecar"
    " did not start"
)
MOST_CONCURRENT: Final = 64
MOST_REPETITIONS: Final = 100


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the parsed arguments. Ends the process with code 2 and a message if they are wrong."""
    return parser().parse_args(arguments)


def measuring(asked: argparse.Namespace) -> Measuring:
    """Return the options of a run from the arguments of `run`, `compare` or `scale`; `scale` plays no turns."""
    whole = asked.command != "scale"
    return Measuring(
        folder=asked.folder,
        sets=asked.sets,
        candidates=asked.candidate,
        model=asked.model,
        summary_model=asked.summary_model if whole else "",
        judge=asked.judge_model if whole else "",
        choice=CaseSelection(ids=asked.only, slots=asked.slot, languages=asked.language),
        how=CasePlayer(repetitions=asked.repetitions if whole else 1, concurrent=asked.concurrent),
    )


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    made = argparse.ArgumentParser(
        prog="sidecar eval", description="Measure routing with labelled cases.", epilog=EXIT_CODES
    )
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run every case and measure", epilog=EXIT_CODES)
    _add_measuring(run)
    _add_playing(run)
    _add_recording(run)
    compare = commands.add_parser("compare", help="compare the definitions of two git revisions", epilog=EXIT_CODES)
    compare.add_argument("span", help="<revision>..<revision>, e.g. main..HEAD; `main..`: with the working tree")
    _add_measuring(compare)
    _add_playing(compare)
    compare.add_argument("--report", type=Path, help="folder for report.html and both runs as JSON")
    scale = commands.add_parser("scale", help="accuracy and cost from 3 to 30 sub-agents", epilog=EXIT_CODES)
    _add_measuring(scale)
    scale.add_argument("--steps", type=_steps, default=STEPS, help="numbers of sub-agents, e.g. 3,10,30")
    scale.add_argument("--report", type=Path, help="folder for scale.html")
    _add_sampling(commands)
    return made


def _add_measuring(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", type=Path, help="holds agent_config.yaml, and the cases in `evals`")
    add("--model", default=OFFLINE, help="routes and composes, as LangChain names it: openai:gpt-5.4-nano (offline)")
    add("--sets", type=Path, help="folder with the cases, instead of `evals` in the configuration")
    add("--candidate", action="append", default=[], help="definition that fills its slot; may occur several times")
    add("--only", action="append", default=[], metavar="ID", help="case ids, with * as in file names")
    add("--slot", action="append", default=[], help="only cases about this sub-agent")
    add("--language", action="append", default=[], help="only cases in this language")
    add("--concurrent", type=_within(MOST_CONCURRENT), default=CONCURRENT, help="cases at a time (%(default)s)")


def _add_playing(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--summary-model", default="", help="writes prior_context and summaries; by default the same model")
    add("--judge-model", default="", help="grades answers; without one, words are compared")
    add("--repetitions", type=_within(MOST_REPETITIONS), default=1, help="how often each case is played (1)")


def _add_recording(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--report", type=Path, help="folder for report.html and run.json")
    add("--json", action="store_true", help="print the metrics as JSON instead of a table")
    add("--manifest", type=Path, help="thresholds; by default evaluation_manifest.yaml in the configuration, if there")
    add("--record", choices=GATES, help="add the results to the manifest, for this gate")
    add("--from", dest="from_percent", type=float, default=0.0, help="ramp before the step, in percent (0)")
    add("--to", dest="to_percent", type=float, default=0.0, help="ramp after the step, in percent (0)")
    add("--evidence", default="", help="address of the report, recorded with the results")
    add(
        "--mlflow", default="", metavar="URI", help="log the run to this tracking server; needs subagents-evals[mlflow]"
    )


def _add_sampling(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    sample = commands.add_parser("sample", help="take turns from the record, redact them, write a file to label")
    add = sample.add_argument
    add("--target", required=True, help="dispatch socket of the sidecar, e.g. unix:/run/sidecar/dispatch/sidecar.sock")
    add("--boot-secret-file", type=Path, required=True, help="the sidecar writes it at its start")
    add("--seed", required=True, help="the same seed takes the same turns of the same record")
    add("--turns", type=_within(MOST_TURNS), default=TURNS, help="how many (%(default)s)")
    add("--language", default="en", help="of the conversations (en)")
    add("--redact", type=Path, help="further words to remove, one on a line, e.g. names of customers")
    add("--to", type=Path, required=True, dest="file", help="the file to write; must not be there")
    label = commands.add_parser("add", help="add labelled turns to the set, and show how production routed them")
    label.add_argument("file", type=Path, help="written by `sample`, with `calls` filled in")
    label.add_argument("folder", type=Path, help="holds agent_config.yaml, and the cases in `evals`")
    label.add_argument("--sets", type=Path, help="folder with the cases, instead of `evals` in the configuration")


def _within(most: int) -> Callable[[str], int]:
    def whole_number(text: str) -> int:
        value = int(text)
        if not 1 <= value <= most:
            raise argparse.ArgumentTypeError(f"from 1 to {most}, not {value}")
        return value

    return whole_number


def _steps(text: str) -> Sequence[int]:
    try:
        steps = [int(one) for one in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"numbers with commas between them, not {text!r}") from None
    if min(steps) < 1:
        raise argparse.ArgumentTypeError("numbers of sub-agents are 1 or more")
    return steps
