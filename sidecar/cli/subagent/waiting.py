"""Waits until what was written is in effect everywhere, and says where it is not."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from sidecar.cli.output.drawing import clean, moment
from sidecar.cli.output.turn_timeline import utc
from sidecar.cli.subagent.client import CannotOperate, OperatorClient
from sidecar.cli.subagent.views import OperatorCommands
from subagents.lifecycle.v1 import reading_pb2 as pb

BETWEEN: Final = 0.5
"""Seconds between two questions."""


@dataclass(frozen=True, slots=True)
class Waited:
    """What came of waiting.

    Attributes:
        version: that was waited for.
        laggards: who does not show it, a phrase each; empty: every living replica does.
        living: how many replicas live.
    """

    version: int
    laggards: Sequence[str]
    living: int = 0


UNRECORDED: Final = Waited(0, ("it is not on record yet, so no other replica knows of it",))
"""What holds at one sidecar while the store is away has no version to wait for."""


def effect_lines(waited: Waited) -> list[tuple[str, str]]:
    """Return what came of waiting, with a style for each line."""
    if waited.laggards:
        return [(f"not yet in effect: {each}", "yellow") for each in waited.laggards]
    return [(f"in effect: every living replica ({waited.living}) shows version {waited.version}", "green")]


def wait_for_replicas(client: OperatorClient, operating: OperatorCommands, version: int, patience: timedelta) -> Waited:
    """Wait until the binds of every living replica show a version; 0 means the newest on record. Never raises."""
    until = operating.passed() + patience.total_seconds()
    while True:
        try:
            answer: pb.ListReplicasResponse = client.ask("ListReplicas", pb.ListReplicasRequest())
        except CannotOperate as problem:
            waited = Waited(version, [f"the replicas cannot be asked for: {problem}"])
        else:
            version = version or answer.rollout_version
            waited = _compared(answer, version)
        if not waited.laggards or operating.passed() >= until:
            return waited
        operating.pause(BETWEEN)


def _compared(answer: pb.ListReplicasResponse, version: int) -> Waited:
    living = [each for each in answer.replicas if each.alive]
    behind = [
        f"{clean(each.instance_id)} shows version {each.rollout_version} (last seen {moment(utc(each.seen_at))} UTC)"
        for each in living
        if each.rollout_version < version
    ]
    return Waited(version, behind if living else ["no living replica is on record"], len(living))
