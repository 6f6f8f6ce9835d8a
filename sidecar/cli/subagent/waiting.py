"""Waits, for `--wait`, until every living replica serves a recorded change; names the replicas that do not."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from sidecar.cli.output.drawing import clean, timestamp, utc
from sidecar.cli.subagent.client import CannotOperate, OperatorClient
from sidecar.cli.subagent.views import OperatorCommands
from subagents.lifecycle.v1 import reading_pb2 as pb

BETWEEN: Final = 0.5
"""Seconds between two queries."""


@dataclass(frozen=True, slots=True)
class Waited:
    """The result of waiting.

    Attributes:
        version: the awaited version of the rollouts. It counts all recorded changes, so a higher one contains this one.
        laggards: a phrase for each replica that does not show the version; empty: every living replica does.
        living: the number of living replicas.
    """

    version: int
    laggards: Sequence[str]
    living: int = 0


UNRECORDED: Final = Waited(0, ("the step is not recorded yet, so no other replica knows it",))
"""The result for a stop that one sidecar applies while the store is unavailable: there is no version to wait for."""


def effect_lines(waited: Waited) -> list[tuple[str, str]]:
    """Return the lines about a wait, with a style for each."""
    if waited.laggards:
        return [(f"not yet in effect: {each}", "yellow") for each in waited.laggards]
    return [(f"in effect: every living replica ({waited.living}) shows version {waited.version}", "green")]


def wait_for_replicas(client: OperatorClient, commands: OperatorCommands, version: int, patience: timedelta) -> Waited:
    """Wait until the binds of every living replica show a version; 0 means the newest recorded one. Never raises.

    A failed query counts as "not yet": the step is already recorded, and an error here would hide that.
    """
    until = commands.passed() + patience.total_seconds()
    while True:
        try:
            # All pages of the list, from one sidecar: every replica reports its version to the record.
            answer: pb.ListReplicasResponse = client.ask_all("ListReplicas", pb.ListReplicasRequest(), "replicas")
        except CannotOperate as problem:
            waited = Waited(version, [f"the replicas cannot be listed: {problem}"])
        else:
            # Fixed at the first answer: later changes of other operators must not prolong the wait.
            version = version or answer.rollout_version
            waited = _compare(answer, version)
        # After a query, so that there is at least one even with a time limit of 0.
        if not waited.laggards or commands.passed() >= until:
            return waited
        commands.pause(BETWEEN)


def _compare(answer: pb.ListReplicasResponse, version: int) -> Waited:
    living = [each for each in answer.replicas if each.alive]
    behind = [
        f"{clean(each.instance_id)} shows version {each.rollout_version} (last seen {timestamp(utc(each.seen_at))} UTC)"
        # A dead replica serves no user, and would never show the version.
        for each in living
        if each.rollout_version < version
    ]
    return Waited(version, behind if living else ["no living replica is recorded"], len(living))
