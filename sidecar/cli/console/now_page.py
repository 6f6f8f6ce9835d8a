"""Now: whether users are served, by slot, and what changed."""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from starlette.responses import Response

from sidecar.cli.console.charts import Chart, chart_of
from sidecar.cli.console.rates import SlotRates
from sidecar.cli.console.rollouts import known_rollouts
from sidecar.cli.console.sidecars import Reply
from sidecar.cli.console.visit import Visit
from sidecar.cli.output.drawing import utc
from sidecar.cli.subagent.client import CannotOperate
from subagents.admin.v1 import admin_pb2
from subagents.lifecycle.v1 import reading_pb2

STEPS_SHOWN: Final = 8
SKEWED: Final = timedelta(seconds=5)
"""More than an answer takes: the clock of that machine, or of the console's, is wrong."""


@dataclass(frozen=True, slots=True)
class Place:
    """One sidecar, side by side with the others.

    Attributes:
        traffic: None: it did not say.
        skew: how its clock differs from that of the console, if it does by more than a few seconds.
    """

    status: Reply
    traffic: Any
    skew: str = ""


@dataclass(slots=True)
class SlotRow:
    """One slot.

    Attributes:
        active: its active definition; None: none, or it is not known.
        breakers: runners whose breaker is not closed, over all sidecars.
    """

    name: str
    slot: Any = None
    active: Any = None
    rates: SlotRates = field(default_factory=SlotRates)
    in_flight: int = 0
    breakers: list[Any] = field(default_factory=list)
    chart: Chart | None = None


async def now(visit: Visit) -> Response:
    """Return the page, or the part of it that changes."""
    statuses, traffics, rollouts, replicas = await asyncio.gather(
        visit.sidecars.ask_each(visit.token, "GetStatus", admin_pb2.GetStatusRequest()),
        visit.sidecars.ask_each(visit.token, "GetTraffic", admin_pb2.GetTrafficRequest()),
        known_rollouts(visit),
        _replicas(visit),
    )
    _raise_if_signed_out(statuses)
    for reply in traffics:
        if reply.answer is not None:
            visit.console.samples.add(reply.target, reply.answer)
    places = [Place(each, told.answer, _skew(told.answer)) for each, told in zip(statuses, traffics, strict=True)]
    rows = _rows(visit, places, rollouts.slots)
    newest = visit.console.tail.newest(STEPS_SHOWN)
    return visit.render("now.html", places=places, rows=rows, rollouts=rollouts, replicas=replicas, steps=newest)


def _skew(traffic: Any) -> str:
    if traffic is None:
        return ""
    ahead = utc(traffic.read_at) - datetime.now(UTC)
    if abs(ahead) < SKEWED:
        return ""
    direction = "ahead of" if ahead > timedelta() else "behind"
    return f"its clock is {abs(ahead).total_seconds():.0f} s {direction} the console's"


def _raise_if_signed_out(replies: list[Reply]) -> None:
    problems = [reply.problem for reply in replies if reply.problem is not None]
    if len(problems) == len(replies) and problems[0].reason:
        raise problems[0]


async def _replicas(visit: Visit) -> Any:
    """Return the replicas and take the newest audit rows in; None while the store is away."""
    tail = visit.console.tail
    try:
        rows = await visit.sidecars.audit(visit.token, after=tail.seen)
        tail.add(rows)
        request = reading_pb2.ListReplicasRequest()
        return await visit.sidecars.ask_all(visit.token, "ListReplicas", request, "replicas")
    except CannotOperate:
        return None


def _rows(visit: Visit, places: list[Place], slots: list[Any]) -> list[SlotRow]:
    answers = [place.traffic for place in places if place.traffic is not None]
    rates = visit.console.samples.rates()
    rows = {each.slot: SlotRow(each.slot, each, _active(each)) for each in slots}
    for name, found in rates.items():
        rows.setdefault(name, SlotRow(name)).rates = found
    for answer in answers:
        for each in answer.slots:
            row = rows.setdefault(each.sub_agent_id, SlotRow(each.sub_agent_id))
            row.in_flight += each.in_flight
            row.breakers += each.open_breakers
    at = datetime.now(UTC)
    for name, row in rows.items():
        steps = [((at - utc(step.requested_at)).total_seconds(), step) for step in visit.console.tail.of(name)]
        row.chart = chart_of(row.rates.series, steps)
    return [rows[name] for name in sorted(rows)]


def _active(slot: Any) -> Any:
    return next((each for each in slot.definitions if each.digest == slot.active_digest), None)
