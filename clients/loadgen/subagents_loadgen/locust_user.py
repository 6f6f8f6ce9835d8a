"""A Locust user that carries out a scenario file. Needs the extra `locust`.

Locust runs users as gevent's greenlets and decides how many there are and for how long; targets, turns, seed and
deadline come from the file. `grpc.aio` does not run under gevent, so the user takes the blocking stubs.
"""

# Locust makes the standard library cooperative when it is imported, which has to happen before gRPC is set up.
from locust import User, events, task  # isort: skip
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc
from gevent import spawn
from grpc.experimental.gevent import init_gevent
from locust.exception import StopUser

from subagents_loadgen.plan import Plan
from subagents_loadgen.running import metadata_of
from subagents_loadgen.scenario_file import read_plan
from subagents_loadgen.turns import Connection, Turns
from subagents_loadgen.wire.operation import Finished
from subagents_loadgen.wire.rpcs import CHANNEL_OPTIONS, BlockingRpcs, finished

init_gevent()

MILLISECONDS = 1e3


class Failed(Exception):
    """An RPC failed, or an answer broke the contract; the message says which and why."""


def user_of(scenario: str | Path, *, most_turns: int | None = None, allow_remote: bool = False) -> type[User]:
    """Return a user class for a locustfile.

    Args:
        scenario: path of a scenario file. Its stages and thresholds are not used.
        most_turns: Locust stops after so many; None: it stops when it is told to.
        allow_remote: load another machine, unencrypted.

    Raises:
        UnusableScenario: says line, field and what is allowed.
    """
    plan = read_plan(Path(scenario), allow_remote=allow_remote)
    numbers, done = count(), count(1)

    class SidecarUser(User):
        """One consumer-agent that carries out turns one after the other."""

        def on_start(self) -> None:
            """Connect."""
            self.turns = Turns(_connections(plan), plan.mixes, plan.seed, uuid4().hex[:12])

        @task
        def turn(self) -> None:
            """Carry out the next turn of the scenario."""
            number = next(numbers)
            if most_turns is not None and number >= most_turns:
                raise StopUser
            _tell(finished(self.turns.carry_out(number)))
            if most_turns is not None and next(done) == most_turns:
                # Not from here: quitting ends this greenlet, too, before the runner has stopped.
                spawn(self.environment.runner.quit)

        def on_stop(self) -> None:
            """End the turns that could not be ended."""
            finished(self.turns.end_open())

    return SidecarUser


def _connections(plan: Plan) -> list[Connection]:
    made = []
    for target in plan.targets:
        channel = grpc.insecure_channel(target.address, options=CHANNEL_OPTIONS)
        made.append(
            Connection(target.address, [BlockingRpcs(channel, target.address, metadata_of(target))], target.weight)
        )
    return made


def _tell(done: Finished) -> None:
    """Tell Locust each RPC with its time, and each failure and broken promise with its reason."""
    failures = {error.split()[0]: error for error in done.errors}
    for step, seconds in done.steps.items():
        _fire(f"{done.kind}: {step}", seconds, failures.pop(step, None))
    for reason in (*failures.values(), *done.violations):
        _fire(f"{done.kind}: contract", 0.0, reason)


def _fire(name: str, seconds: float, failure: str | None) -> None:
    event: dict[str, Any] = {"request_type": "grpc", "name": name, "response_length": 0, "context": {}}
    event["exception"] = None if failure is None else Failed(failure)
    fire: Any = events.request.fire  # has no types
    fire(response_time=seconds * MILLISECONDS, **event)
