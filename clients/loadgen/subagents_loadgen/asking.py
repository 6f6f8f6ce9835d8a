"""The command line: what may be said, and what it means."""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from subagents_loadgen.plan import ARGUMENTS, Arrivals, Load, Mix, Scenario
from subagents_loadgen.targets import is_local

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
  streams that break and users who change their mind:
    subagents-loadgen ... --rate 50 --fan-out 2 --resume 10% --cancel 5%

exit codes:
  0    measured, and every answer kept the contract
  1    an answer broke the contract, or more operations failed than --max-failed allows
  2    the command line makes no sense, or names an address beyond this machine without --allow-remote
  3    not measured: the server is not there, or does not let this client bind a turn
  130  interrupted; the report is of what was measured until then
"""
UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
OPEN_LOOP_IN_FLIGHT: Final = 1000


@dataclass(frozen=True, slots=True)
class Asked:
    """A command line that makes sense."""

    target: str
    boot_secret_file: Path | None
    load: Load
    mix: Mix
    seed: int
    channels: int
    max_failed: float
    as_json: bool
    quiet: bool


def understood(arguments: Sequence[str] | None = None) -> Asked:
    """Read the command line.

    Raises:
        SystemExit: with 2 and a message on standard error if it makes no sense.
    """
    parser = _parser()
    given = parser.parse_args(arguments)
    if not given.allow_remote and not is_local(given.target):
        parser.error(
            f"{given.target} is beyond this machine: load on somebody else's server, over a connection that is not "
            "encrypted; if that is what you want, say --allow-remote"
        )
    scenario = Scenario(given.scenario)
    if scenario is not Scenario.TURN and (given.resume or given.cancel):
        parser.error(f"--resume and --cancel need a stream, which scenario {scenario} does not have")
    if given.rate is None and given.max_in_flight is not None:
        parser.error("--max-in-flight belongs to --rate; a closed loop has --in-flight")
    return Asked(
        target=given.target,
        boot_secret_file=given.boot_secret_file,
        load=_load(given),
        mix=_mix(given, scenario),
        seed=given.seed,
        channels=given.channels,
        max_failed=given.max_failed,
        as_json=given.json,
        quiet=given.quiet,
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
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print JSON, latencies in microseconds, instead of text")
    output.add_argument("--quiet", action="store_true", help="no progress on standard error, also on a terminal")
    output.add_argument(
        "--max-failed", type=share, default=1.0, metavar="SHARE",
        help="exit with 1 if a larger share of the operations failed, e.g. 1%%; default: any share is a result",
    )  # fmt: skip
    return parser


def _add_where(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--target", required=True, help="gRPC target, e.g. unix:/run/sidecar/dispatch/sidecar.sock")
    add("--boot-secret-file", type=Path, metavar="FILE", help="holds what the dispatch socket asks for")
    add(
        "--allow-remote",
        action="store_true",
        help="load another machine, unencrypted, boot secret included",
    )
    add("--channels", type=positive, default=1, metavar="N", help="separate connections, used in turn; default 1")


def _add_how_much(group: argparse._ArgumentGroup) -> None:
    loop = group.add_mutually_exclusive_group(required=True)
    loop.add_argument("--rate", type=rate, metavar="R", help="open loop: begin R operations a second")
    loop.add_argument("--in-flight", type=positive, metavar="N", help="closed loop: keep N operations going")
    add = group.add_argument
    add("--arrivals", choices=[one.value for one in Arrivals], default=Arrivals.EVEN.value,
        help="open loop: in equal steps, or at random as independent users do; default even")  # fmt: skip
    add("--max-in-flight", type=positive, metavar="N",
        help="open loop: more than N at a time wait, and their waiting is part of their latency; "
        f"default {OPEN_LOOP_IN_FLIGHT}")  # fmt: skip
    add("--duration", type=duration, default=10.0, metavar="TIME", help="e.g. 500ms, 10s, 2m; default 10s")
    add("--requests", type=positive, metavar="N", help="stop after N operations, if that is earlier")
    add("--warm-up", type=duration, default=1.0, metavar="TIME", help="before it, not measured; default 1s")
    add("--grace", type=duration, default=10.0, metavar="TIME",
        help="open loop: how long after the end operations that are due may still begin; default 10s")  # fmt: skip
    add("--deadline", type=duration, default=30.0, metavar="TIME", help="of every RPC; default 30s")


def _add_what(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--scenario", choices=[one.value for one in Scenario], default=Scenario.TURN.value, help="default turn")
    add("--fan-out", type=fan_out, default=((1, 1.0),), metavar="N[:WEIGHT],...",
        help="calls of a dispatch, e.g. 1:70,2:20,8:10; default 1")  # fmt: skip
    add("--resume", type=share, default=0.0, metavar="SHARE",
        help="of the streams that are left after the first frame and resumed, e.g. 5%%")  # fmt: skip
    add("--cancel", type=share, default=0.0, metavar="SHARE", help="of the dispatches of which one call is cancelled")
    add("--tools", type=names, default=(), metavar="A,B", help="choose from these tools; default: all of the surface")
    add("--arguments", default=ARGUMENTS, metavar="JSON", help="of each call")
    add("--orchestrator", default="", metavar="ID", help="default: the only one")
    add("--principals", type=positive, default=100, metavar="N", help="users that the turns belong to; default 100")
    add("--seed", type=int, default=1, help="the same seed makes the same choices; default 1")


def duration(text: str) -> float:
    """Return seconds, of e.g. `500ms`, `10s`, `2m`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write e.g. 500ms, 10s or 2m")
    return float(found[1]) * UNITS[found[2]]


def share(text: str) -> float:
    """Return a share between 0 and 1, of e.g. `5%` or `0.05`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text)
    value = float(found[1]) / (100 if found[2] else 1) if found else -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share; write e.g. 5% or 0.05")
    return value


def positive(text: str) -> int:
    """Return a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def rate(text: str) -> float:
    """Return operations a second."""
    found = re.fullmatch(r"\d+(\.\d+)?", text)
    if found is None or float(text) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no rate; write operations a second, e.g. 200")
    return float(text)


def names(text: str) -> Sequence[str]:
    """Return the words between commas."""
    return tuple(one.strip() for one in text.split(",") if one.strip())


def fan_out(text: str) -> Sequence[tuple[int, float]]:
    """Return sizes and their weights, of e.g. `1:70,2:30` or `3`."""
    found = []
    for part in text.split(","):
        size, _, weight = part.partition(":")
        if not size.isdecimal() or int(size) < 1 or (weight and not re.fullmatch(r"\d+(\.\d+)?", weight)):
            raise argparse.ArgumentTypeError(f"{part!r} is no size with a weight; write e.g. 1:70,2:30")
        found.append((int(size), float(weight or 1)))
    if not any(weight for _, weight in found):
        raise argparse.ArgumentTypeError(f"{text!r} gives no size a weight above 0")
    return tuple(found)
