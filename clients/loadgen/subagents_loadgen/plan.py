"""What a run is to do. Everything that is random in it follows from the seed."""

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
    """What one operation is."""

    BIND = "bind"
    TURN = "turn"
    UNARY = "unary"


class Arrivals(StrEnum):
    """How the operations of an open loop are spread over time."""

    EVEN = "even"
    POISSON = "poisson"


@dataclass(frozen=True, slots=True)
class Load:
    """How much, how fast and how long.

    Attributes:
        rate: operations a second, whatever the server does (open loop); None: closed loop.
        in_flight: closed loop: operations at a time. Open loop: most at a time; further ones wait, and their waiting
            counts as latency.
        seconds: how long operations begin, after the warm-up.
        requests: at most so many, after the warm-up; None: as many as there is time for.
        warm_up: seconds at the start whose operations are checked but not measured.
        grace: open loop: seconds after the end in which operations that are due may still begin.
        ramp_to: open loop: the rate at the end, approached evenly; None: the rate stays.
        name: of the stage.
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
    """What the operations consist of.

    Attributes:
        scenario: what one operation is.
        name: of the kind of turn.
        weight: share of the operations, relative to the other kinds.
        fan_out: how many calls a dispatch has, each with its weight.
        resume: share of dispatches whose stream is left after the first frame and resumed.
        reconnect: the same, resumed over a new connection.
        slow_reader: seconds between two frames that are read.
        sizes: bytes of text that each call's `request` is filled up to, each with its weight; 0: as it is.
        cancel: share of dispatches of which one call is cancelled after the first frame.
        tools: `ask_` tools to choose from; none: all of the surface.
        arguments_json: of every call.
        orchestrator_id: empty: the only one.
        principals: how many users there are.
        deadline: of every RPC, in seconds.
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
        address: as gRPC takes it.
        boot_secret_file: holds what the dispatch socket asks for; None: nothing is sent.
        weight: share of the operations, relative to the other targets.
    """

    address: str
    boot_secret_file: Path | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole run.

    Attributes:
        name: of the scenario.
        targets: at least one.
        mixes: kinds of turns; at least one.
        stages: one after the other; at least one.
        thresholds: decide the exit code, beside the contract.
        seed: of everything that is random.
        channels: connections to each target.
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
    """What one operation is to do."""

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
