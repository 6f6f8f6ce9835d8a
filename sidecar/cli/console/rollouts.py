"""Reads the rollouts for the pages of the console.

While the store is unavailable, the rollouts are those that a sidecar uses for its binds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sidecar.cli.console.visit import Visit
from sidecar.cli.output.drawing import TextLine
from sidecar.cli.subagent.client import CannotOperate
from sidecar.cli.subagent.output.decommission_tables import status_lines
from subagents.lifecycle.v1 import reading_pb2

AWAY: Final = frozenset({"STORE_UNAVAILABLE", ""})
"""Reasons for which a page is shown without rollouts: none was read before an outage, or no sidecar answers (empty)."""


@dataclass(frozen=True, slots=True)
class KnownRollouts:
    """What is known of the rollouts: either an answer or a problem.

    Attributes:
        answer: the `ListRolloutsResponse`; None: no rollout is known.
        problem: why no rollout is known.
    """

    answer: Any = None
    problem: CannotOperate | None = None

    @property
    def slots(self) -> list[Any]:
        """All slots that are known."""
        return [] if self.answer is None else list(self.answer.slots)

    def slot(self, name: str) -> Any:
        """Return a slot, None if it is not known."""
        return next((each for each in self.slots if each.slot == name), None)


async def known_rollouts(visit: Visit) -> KnownRollouts:
    """Read the rollouts. Raises `CannotOperate` for every reason that is not in `AWAY`."""
    request = reading_pb2.ListRolloutsRequest(or_replica_view=True)
    try:
        return KnownRollouts(await visit.sidecars.ask_all(visit.token, "ListRollouts", request, "slots"))
    except CannotOperate as problem:
        if problem.reason not in AWAY:
            raise
        return KnownRollouts(problem=problem)


async def cleanups(visit: Visit, definitions: Iterable[Any]) -> Mapping[str, list[tuple[str, str]]]:
    """Return the progress of each decommission by the digest of its definition, as lines with a style each."""
    # Decommissions are rare, so most pages are spared the request below.
    leaving = {each.digest for each in definitions if each.HasField("decommission")}
    if not leaving:
        return {}
    request = reading_pb2.ListDecommissionsRequest(include_finished=True)
    try:
        answer = await visit.sidecars.ask_all(visit.token, "ListDecommissions", request, "decommissions")
    except CannotOperate as problem:
        if problem.reason not in AWAY:
            raise
        return {}
    return {
        each.digest: [_plain(line) for line in status_lines(each)]
        for each in answer.decommissions
        if each.digest in leaving
    }


def _plain(line: TextLine) -> tuple[str, str]:
    # A template gives one style to a whole line; the first that a part has is the one that matters.
    return "".join(part.text for part in line).strip(), next((part.style for part in line if part.style), "")
