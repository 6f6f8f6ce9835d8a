"""The command line of the load generator."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from subagents_loadgen.plan import ARGUMENTS, Arrivals, Load, Mix, Plan, Scenario, Target
from subagents_loadgen.quantities import duration, fan_out, names, positive, rate, share
from subagents_loadgen.scenario_file import UnusableScenario, read_plan
from subagents_loadgen.wire.targets import is_local

DESCRIPTION: Final = """\
Puts load on a running dispatch sidecar and reports latencies, outcomes, errors and broken promises.

A closed loop (--in-flight 16) keeps so many operations going: it finds the throughput. An open loop (--rate 200) begins
operations at times fixed in advance, as users do: it finds the latency at a load. Latency then counts from when an
operation was due, not from when it could be sent, so that a stall shows in full.
"""
EPILOG: Final = """\
scenarios:
  turn    BindTurn, Dispatch (streamed), EndTurn: the whole turn is one operation
  unary   the same with DispatchUnary
  bind    BindTurn alone; the turn is ended after the clock has stopped

examples:
  a first look, 10 s, one at a time:
    subagents-loadgen --target unix:/run/sidecar/dispatch/sidecar.sock \\
      --boot-secret-file /run/sidecar/dispatch/boot-secret --in-flight 1
  100 turns a second at random moments, most with one call and some with three:
    subagents-loadgen ... --rate 100 --arrivals poisson --duration 1m --warm-up 10s --fan-out 1:80,3:20
  a mix of turns in stages, with thresholds and a report:
    subagents-loadgen --file scenario.yaml --html report.html --json-file run.json
  streams that break and users who change their mind:
    subagents-loadgen ... --rate 50 --fan-out 2 --resume 10% --cancel 5%

exit codes:
  0    measured; every answer conformed to the contract
  1    an answer violated the contract, a threshold was not met, or more operations failed than --max-failed allows
  2    the command line or the scenario is invalid, or names an address on another machine without --allow-remote
  3    not measured: a target is unavailable or refuses the first bind, or a file (boot secret, --compare) is unreadable
  130  interrupted; the report covers the time until then
"""
BESIDE_A_FILE: Final = frozenset(
    "--file --target --boot-secret-file --allow-remote --json --json-file --html --hdr --compare --quiet"
    " --max-failed".split()
)
"""Options that may be given with a scenario file."""
Value = TypeVar("Value")
OPEN_LOOP_IN_FLIGHT: Final = 1000


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A valid command line.

    Attributes:
        plan: the run.
        max_failed: maximum share of failed operations, from 0 to 1.
        as_json: print JSON instead of text.
        quiet: show no progress.
        json_file, page_file, hdr_folder: paths of further reports; None: not written.
        earlier: JSON of an earlier run, to compare with; None: nothing.
    """

    plan: Plan
    max_failed: float = 1.0
    as_json: bool = False
    quiet: bool = False
    json_file: Path | None = None
    page_file: Path | None = None
    hdr_folder: Path | None = None
    earlier: Path | None = None


def understood(arguments: Sequence[str] | None = None) -> RunRequest:
    """Read the command line.

    Raises:
        SystemExit: the command line is wrong; the code is 2, and standard error has a message.
    """
    parser = _parser()
    given = parser.parse_args(arguments)
    plan = _plan_of_file(parser, given, arguments) if given.file else _plan_of_options(parser, given)
    return RunRequest(
        plan=plan,
        max_failed=given.max_failed,
        as_json=given.json,
        quiet=given.quiet,
        json_file=given.json_file,
        page_file=given.html,
        hdr_folder=given.hdr,
        earlier=given.compare,
    )


def _plan_of_file(parser: argparse.ArgumentParser, given: argparse.Namespace, arguments: Sequence[str] | None) -> Plan:
    named = [one.partition("=")[0] for one in (sys.argv[1:] if arguments is None else arguments)]
    for option in named:
        if option.startswith("--") and option not in BESIDE_A_FILE:
            parser.error(f"{option} cannot be given with --file; write it into {given.file}")
    try:
        plan = read_plan(given.file, allow_remote=given.allow_remote)
    except UnusableScenario as problem:
        parser.error(str(problem))
    if given.target is None:
        return plan
    _check_local(parser, given)
    return replace(plan, targets=[Target(given.target, given.boot_secret_file)])


def _plan_of_options(parser: argparse.ArgumentParser, given: argparse.Namespace) -> Plan:
    if given.target is None:
        parser.error("the following arguments are required: --target (or --file)")
    _check_local(parser, given)
    if given.rate is None and given.in_flight is None:
        parser.error("one of the arguments --rate --in-flight is required (or --file)")
    scenario = Scenario(given.scenario)
    if scenario is not Scenario.TURN and (given.resume or given.cancel):
        parser.error(f"--resume and --cancel need a stream, which scenario {scenario} does not have")
    if given.rate is None and given.max_in_flight is not None:
        parser.error("--max-in-flight belongs to --rate; a closed loop has --in-flight")
    return Plan(
        name=scenario.value,
        targets=[Target(given.target, given.boot_secret_file)],
        mixes=[_mix(given, scenario)],
        stages=[_load(given)],
        seed=given.seed,
        channels=given.channels,
    )


def _check_local(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    if not given.allow_remote and not is_local(given.target):
        parser.error(
            f"{given.target} is beyond this machine: load on another server, over a connection that is not "
            "encrypted; if that is what you want, say --allow-remote"
        )


def _load(given: argparse.Namespace) -> Load:
    return Load(
        rate=given.rate,
        in_flight=given.in_flight or given.max_in_flight or OPEN_LOOP_IN_FLIGHT,
        seconds=given.duration,
        requests=given.requests,
        warm_up=given.warm_up,
        grace=given.grace,
        arrivals=Arrivals(given.arrivals),
    )


def _mix(given: argparse.Namespace, scenario: Scenario) -> Mix:
    return Mix(
        scenario=scenario,
        fan_out=given.fan_out,
        resume=given.resume,
        cancel=given.cancel,
        tools=given.tools,
        arguments_json=given.arguments,
        orchestrator_id=given.orchestrator,
        principals=given.principals,
        deadline=given.deadline,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="subagents-loadgen",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_where(parser.add_argument_group("where"))
    _add_how_much(parser.add_argument_group("how much"))
    _add_what(parser.add_argument_group("what"))
    _add_output(parser.add_argument_group("output"))
    return parser


def _add_output(output: argparse._ArgumentGroup) -> None:
    output.add_argument("--json", action="store_true", help="print JSON, latencies in microseconds, instead of text")
    output.add_argument("--quiet", action="store_true", help="no progress on standard error, also on a terminal")
    output.add_argument("--json-file", type=Path, metavar="FILE", help="write the JSON to a file, e.g. to compare with")
    output.add_argument("--html", type=Path, metavar="FILE", help="write a report with plots; one file, no network")
    output.add_argument("--hdr", type=Path, metavar="FOLDER", help="write HDR histogram logs, one for each latency")
    output.add_argument("--compare", type=Path, metavar="FILE", help="JSON of an earlier run, shown beside this one")
    output.add_argument(
        "--max-failed", type=_option(share), default=1.0, metavar="SHARE",
        help="exit with 1 if a larger share of the operations failed, e.g. 1%%; default: any share is a result",
    )  # fmt: skip


def _add_where(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--file", type=Path, metavar="FILE", help="a scenario in YAML instead of the options; see docs/load-testing.md")
    add("--target", help="gRPC target, e.g. unix:/run/sidecar/dispatch/sidecar.sock")
    add("--boot-secret-file", type=Path, metavar="FILE", help="holds what the dispatch socket asks for")
    add(
        "--allow-remote",
        action="store_true",
        help="load another machine, unencrypted, boot secret included",
    )
    add(
        "--channels",
        type=_option(positive),
        default=1,
        metavar="N",
        help="separate connections, used in turn; default 1",
    )


def _add_how_much(group: argparse._ArgumentGroup) -> None:
    loop = group.add_mutually_exclusive_group()
    loop.add_argument("--rate", type=_option(rate), metavar="R", help="open loop: begin R operations a second")
    loop.add_argument("--in-flight", type=_option(positive), metavar="N", help="closed loop: keep N operations going")
    add = group.add_argument
    add("--arrivals", choices=[one.value for one in Arrivals], default=Arrivals.EVEN.value,
        help="open loop: in equal steps, or at random as independent users do; default even")  # fmt: skip
    add("--max-in-flight", type=_option(positive), metavar="N",
        help="open loop: more than N at a time wait, and their waiting is part of their latency; "
        f"default {OPEN_LOOP_IN_FLIGHT}")  # fmt: skip
    add("--duration", type=_option(duration), default=10.0, metavar="TIME", help="e.g. 500ms, 10s, 2m; default 10s")
    add("--requests", type=_option(positive), metavar="N", help="stop after N operations, if that is earlier")
    add("--warm-up", type=_option(duration), default=1.0, metavar="TIME", help="before it, not measured; default 1s")
    add("--grace", type=_option(duration), default=10.0, metavar="TIME",
        help="open loop: how long after the end operations that are due may still begin; default 10s")  # fmt: skip
    add("--deadline", type=_option(duration), default=30.0, metavar="TIME", help="of every RPC; default 30s")


def _add_what(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--scenario", choices=[one.value for one in Scenario], default=Scenario.TURN.value, help="default turn")
    add("--fan-out", type=_option(fan_out), default=((1, 1.0),), metavar="N[:WEIGHT],...",
        help="calls of a dispatch, e.g. 1:70,2:20,8:10; default 1")  # fmt: skip
    add("--resume", type=_option(share), default=0.0, metavar="SHARE",
        help="of the streams that are left after the first frame and resumed, e.g. 5%%")  # fmt: skip
    add(
        "--cancel",
        type=_option(share),
        default=0.0,
        metavar="SHARE",
        help="of the dispatches of which one call is cancelled",
    )
    add(
        "--tools",
        type=_option(names),
        default=(),
        metavar="A,B",
        help="choose from these tools; default: all of the surface",
    )
    add("--arguments", default=ARGUMENTS, metavar="JSON", help="of each call")
    add("--orchestrator", default="", metavar="ID", help="default: the only one")
    add(
        "--principals",
        type=_option(positive),
        default=100,
        metavar="N",
        help="users that the turns belong to; default 100",
    )
    add("--seed", type=int, default=1, help="the same seed makes the same choices; default 1")


def _option(reader: Callable[[str], Value]) -> Callable[[str], Value]:
    """Return a reader whose `ValueError` argparse shows."""

    def read(text: str) -> Value:
        try:
            return reader(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read
