"""The page "Now": whether each sidecar serves users, the calls of each slot, and the newest steps of rollouts."""

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
"""The smallest difference of clocks that is shown. It is above the longest time of an answer (`GLANCE`, 3 s), so one of
the clocks is wrong."""


@dataclass(frozen=True, slots=True)
class Place:
    """One sidecar of the page.

    Attributes:
        status: its answer to `GetStatus`, or the reason why there is none.
        traffic: its answer to `GetTraffic`; None: it did not answer.
        skew: how far its clock differs from that of the console; empty if less than `SKEWED`.
    """

    status: Reply
    traffic: Any
    skew: str = ""


@dataclass(slots=True)
class SlotRow:
    """One slot of the page.

    Attributes:
        slot: its rollout; None: the store does not answer, or the slot has none.
        active: the definition that serves it; None: there is none, or it is not known.
        rates: calls of the last minute.
        in_flight: calls that run now, over all sidecars.
        breakers: runners, over all sidecars, whose circuit breaker is not closed.
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
    # At the same time: the page repeats every two seconds, and must not wait for four answers in a row.
    statuses, traffics, rollouts, replicas = await asyncio.gather(
        visit.sidecars.ask_each(visit.token, "GetStatus", admin_pb2.GetStatusRequest()),
        visit.sidecars.ask_each(visit.token, "GetTraffic", admin_pb2.GetTrafficRequest()),
        known_rollouts(visit),
        _replicas(visit),
    )
    _raise_if_signed_out(statuses)
    for reply in traffics:
        if reply.answer is not None:
            # Every visit adds a reading, and all browsers see rates from the same readings: rates need earlier ones.
            # `add` ignores a reading that is too close to the one before, so many open pages do no harm.
            visit.console.samples.add(reply.target, reply.answer)
    # Both lists are in the order of the targets.
    places = [
        Place(status, traffic.answer, _skew(traffic.answer)) for status, traffic in zip(statuses, traffics, strict=True)
    ]
    rows = _rows(visit, places, rollouts.slots)
    newest = visit.console.tail.newest(STEPS_SHOWN)
    return visit.render("now.html", places=places, rows=rows, rollouts=rollouts, replicas=replicas, steps=newest)


def _skew(traffic: Any) -> str:
    """Return how far the clock of a sidecar differs from that of the console, in words; empty: less than `SKEWED`."""
    if traffic is None:
        return ""
    ahead = utc(traffic.read_at) - datetime.now(UTC)
    if abs(ahead) < SKEWED:
        return ""
    direction = "ahead of" if ahead > timedelta() else "behind"
    return f"its clock is {abs(ahead).total_seconds():.0f} s {direction} the console's"


def _raise_if_signed_out(replies: list[Reply]) -> None:
    """Raise the refusal of the role token, so that the operator signs in again, if every sidecar refuses."""
    problems = [reply.problem for reply in replies if reply.problem is not None]
    # Only if all refuse: a single sidecar may have other keys, and the others still show the page.
    if len(problems) == len(replies) and problems[0].reason:
        raise problems[0]


async def _replicas(visit: Visit) -> Any:
    """Return the replicas, and add the newest audit rows to the tail; None: the store is unavailable."""
    tail = visit.console.tail
    try:
        # Only rows that no visit has read yet; the audit may be long.
        rows = await visit.sidecars.audit(visit.token, after=tail.seen)
        tail.add(rows)
        request = reading_pb2.ListReplicasRequest()
        return await visit.sidecars.ask_all(visit.token, "ListReplicas", request, "replicas")
    # Replicas and audit are in the store; without them, the page still shows the sidecars and their calls.
    except CannotOperate:
        return None


def _rows(visit: Visit, places: list[Place], slots: list[Any]) -> list[SlotRow]:
    """Return a row for each slot that is in a rollout, or has or had calls within the window, by name.

    Args:
        visit: the request.
        places: the sidecars with their present calls.
        slots: the rollouts; empty: they are not known.
    """
    answers = [place.traffic for place in places if place.traffic is not None]
    rates = visit.console.samples.rates()
    rows = {each.slot: SlotRow(each.slot, each, _active(each)) for each in slots}
    for name, slot_rates in rates.items():
        # A slot that left the configuration may still have calls in open turns.
        rows.setdefault(name, SlotRow(name)).rates = slot_rates
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
