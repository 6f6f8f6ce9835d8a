"""The plan of a run. All its random choices derive from the seed."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Final

from subagents_loadgen.thresholds import Threshold

ARGUMENTS: Final = '{"request": "What is new?"}'


class Scenario(StrEnum):
    """What one operation does."""

    BIND = "bind"
    TURN = "turn"
    UNARY = "unary"


class Arrivals(StrEnum):
    """How the operations of an open loop are spread over time."""

    EVEN = "even"
    POISSON = "poisson"


@dataclass(frozen=True, slots=True)
class Load:
    """The load of one stage.

    Attributes:
        rate: operations per second, independent of the server (open loop); None: closed loop.
        in_flight: closed loop: number of operations at a time. Open loop: maximum number at a time; further operations
            wait, and their waiting time counts as latency.
        seconds: time in which operations begin, after the warm-up.
        requests: maximum number of operations after the warm-up; None: no maximum.
        warm_up: seconds at the start whose operations are checked but not measured.
        grace: open loop: seconds after the end in which operations that are due may still begin.
        arrivals: open loop: distribution of the operations over time.
        ramp_to: open loop: rate at the end, which is reached linearly; None: the rate is constant.
        name: name of the stage.
    """

    rate: float | None
    in_flight: int
    seconds: float
    requests: int | None = None
    warm_up: float = 0.0
    grace: float = 10.0
    arrivals: Arrivals = Arrivals.EVEN
    ramp_to: float | None = None
    name: str = "load"


@dataclass(frozen=True, slots=True)
class Mix:
    """One kind of operation.

    Attributes:
        scenario: what one operation does.
        name: name of the kind of turn.
        weight: share of the operations, relative to the other kinds.
        fan_out: numbers of calls of a dispatch, each with its weight.
        resume: share of dispatches whose stream is closed after the first frame and resumed.
        reconnect: share of dispatches whose stream is closed after the first frame and resumed over a new connection.
        slow_reader: pause after each frame, in seconds.
        sizes: sizes in bytes to which a call's arguments are filled up, each with its weight; 0: not filled up.
        cancel: share of dispatches in which one call is cancelled after the first frame.
        tools: `ask_` tools to choose from; empty: all tools of the surface.
        arguments_json: arguments of every call, as JSON text.
        orchestrator_id: id of the orchestrator; empty: the only one.
        principals: number of users.
        deadline: deadline of every RPC, in seconds.
    """

    scenario: Scenario = Scenario.TURN
    name: str = "turn"
    weight: float = 1.0
    fan_out: Sequence[tuple[int, float]] = ((1, 1.0),)
    resume: float = 0.0
    cancel: float = 0.0
    reconnect: float = 0.0
    slow_reader: float = 0.0
    sizes: Sequence[tuple[int, float]] = ((0, 1.0),)
    tools: Sequence[str] = ()
    arguments_json: str = ARGUMENTS
    orchestrator_id: str = ""
    principals: int = 100
    deadline: float = 30.0


@dataclass(frozen=True, slots=True)
class Target:
    """A sidecar.

    Attributes:
        address: gRPC target.
        boot_secret_file: file with the boot secret of the dispatch socket; None: none is sent.
        weight: share of the operations, relative to the other targets.
    """

    address: str
    boot_secret_file: Path | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole run.

    Attributes:
        name: name of the scenario.
        targets: the sidecars; at least one.
        mixes: the kinds of operations; at least one.
        stages: the loads, which run one after the other; at least one.
        thresholds: bounds that determine the exit code, besides violations of the contract.
        seed: seed of all random choices.
        channels: number of connections to each target.
    """

    name: str
    targets: Sequence[Target]
    mixes: Sequence[Mix]
    stages: Sequence[Load]
    thresholds: Sequence[Threshold] = ()
    seed: int = 1
    channels: int = 1


@dataclass(frozen=True, slots=True)
class Choice:
    """The random choices of one operation."""

    principal: str
    calls: int
    resume: bool
    cancel: bool
    reconnect: bool
    chance: Random


_PRINCIPAL: Final = "load-user-{}"


def choice_of(mix: Mix, seed: int, number: int) -> Choice:
    """Return what operation `number` does: the same for a seed, however the operations overtake each other."""
    chance = Random(f"{seed}:{number}")  # noqa: S311  chooses a mix, guards nothing
    sizes, weights = [size for size, _ in mix.fan_out], [weight for _, weight in mix.fan_out]
    return Choice(
        principal=_PRINCIPAL.format(chance.randrange(mix.principals)),
        calls=chance.choices(sizes, weights)[0],
        resume=chance.random() < mix.resume,
        cancel=chance.random() < mix.cancel,
        reconnect=chance.random() < mix.reconnect,
        chance=chance,
    )


def place_of(weights: Sequence[float], seed: int, number: int, what: str) -> int:
    """Return which of several alternatives operation `number` takes, by their weights."""
    if len(weights) == 1:
        return 0
    chance = Random(f"{what}:{seed}:{number}")  # noqa: S311  chooses a mix, guards nothing
    return chance.choices(range(len(weights)), weights)[0]


def arguments_for(mix: Mix, choice: Choice) -> str:
    """Return the arguments of a call as JSON, with `request` filled up to the chosen size."""
    size = choice.chance.choices([one for one, _ in mix.sizes], [weight for _, weight in mix.sizes])[0]
    missing = size - len(mix.arguments_json.encode())
    if missing <= 0:
        return mix.arguments_json
    arguments = json.loads(mix.arguments_json)
    arguments["request"] = f"{arguments.get('request', '')}{' ' if arguments.get('request') else ''}{'x' * missing}"
    return json.dumps(arguments, ensure_ascii=False)


def tools_for(choice: Choice, bound: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Return the tools of a dispatch: different ones as far as there are enough.

    Args:
        choice: says how many.
        bound: what the surface offers; at least one, unless `wanted` says what to call.
        wanted: what the user of the load generator asked for.
    """
    pool = list(wanted or bound)
    chosen: list[str] = []
    while len(chosen) < choice.calls:
        chosen += choice.chance.sample(pool, min(len(pool), choice.calls - len(chosen)))
    return chosen
