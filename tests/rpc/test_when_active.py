"""When was a sub-agent active for a cohort: asked of the sidecar, and at the command line; also after retention."""

import json
from datetime import datetime, timedelta
from typing import Any

from sidecar.cli.subagent.activity import ActivePeriodsOptions, show_active_periods
from sidecar.operations.record.retention import RetentionRules
from sidecar.operations.rollout.audit.retention import AuditRetention
from sidecar.rpc.translate.fields import timestamp
from subagents.lifecycle.v1 import activity_pb2 as pb
from subagents.lifecycle.v1 import reading_pb2
from tests.adapters.rollouts.retention_rules import HandSigner
from tests.support.operator_desk import INSIDE, Desk
from tests.support.operators import OperatedSidecar, an_operated_sidecar
from tests.support.operators_outside import BEGAN
from tests.support.requests import failure_of
from tests.support.requirement import requirement

OUTSIDE = "user-1"
"""In bucket 6576 of the salt `shop`."""
DAY = timedelta(days=1)
RULES = RetentionRules(audit=90 * DAY, frames=DAY)
Period = tuple[datetime | None, datetime | None, int]


async def periods(bench: OperatedSidecar, **cohort: Any) -> list[Period]:
    """Return begin, end and ramp of each."""
    request = pb.ListActivePeriodsRequest(definition_id="shop", **cohort)
    answer = await bench.lifecycle.ListActivePeriods(request, timeout=10, metadata=bench.role("viewer"))
    return [(_time(each, "started_at"), _time(each, "ended_at"), each.ramp_basis_points) for each in answer.periods]


def _time(period: pb.ActivePeriod, name: str) -> datetime | None:
    seen: datetime = getattr(period, name).ToDatetime(BEGAN.tzinfo)
    return seen if period.HasField(name) else None


async def a_history(bench: OperatedSidecar) -> None:
    """One step a day: promoted at 5 %, 80 %, ramped down, 5 % again, killed; days 1 to 5."""
    bench.clock.time = BEGAN + DAY
    await bench.promoted(500)
    for day, step in ((2, 8_000), (3, None), (4, 500), (5, 0)):
        bench.clock.time = BEGAN + day * DAY
        if step is None:
            await bench.step("RampDown", breach_id="floor-7")
        elif step:
            if day == 4:
                await bench.step("AcknowledgeBreach", breach_id="floor-7")
            await bench.step("SetRamp", ramp_basis_points=step)
        else:
            await bench.step("Kill")


@requirement("PF1-D-50")
async def test_a_user_and_a_share_were_served_when_the_ramp_reached_the_whole_of_them() -> None:
    """In bucket 131 from the first step on; in 6576 for a day; the first 3 % like the one, everybody never."""
    async with an_operated_sidecar() as bench:
        await a_history(bench)
        inside = await periods(bench, principal=INSIDE)
        outside = await periods(bench, principal=OUTSIDE)
        share = await periods(bench, share_basis_points=300)
        everybody = await periods(bench, share_basis_points=10_000)
    days = [BEGAN + day * DAY for day in range(6)]
    assert inside == [(days[1], days[3], 500), (days[4], days[5], 500)]
    assert outside == [(days[2], days[3], 8_000)]
    assert (share, everybody) == (inside, [])


@requirement("PF1-D-50", "PF1-NFR-3")
async def test_what_retention_removed_is_the_beginning_of_what_is_kept() -> None:
    """Days 1 and 2 are gone: that it served then is still known; not since when. Explanations go on from there."""
    async with an_operated_sidecar() as bench:
        await a_history(bench)
        before = await why(bench, BEGAN + 3.5 * DAY), await why(bench, BEGAN + 4.5 * DAY)
        await _removed(bench, BEGAN + 2.5 * DAY)
        await _removed(bench, BEGAN + 3.2 * DAY)
        inside, outside = await periods(bench, principal=INSIDE), await periods(bench, principal=OUTSIDE)
        request = pb.ListActivePeriodsRequest(definition_id="shop", principal=INSIDE)
        answer = await bench.lifecycle.ListActivePeriods(request, timeout=10, metadata=bench.role())
        after = await why(bench, BEGAN + 3.5 * DAY), await why(bench, BEGAN + 4.5 * DAY)
        code, out, _ = await Desk(bench).say(show_active_periods, ActivePeriodsOptions("shop", user=INSIDE))
    assert inside == [(BEGAN + 4 * DAY, BEGAN + 5 * DAY, 500)]
    assert outside == []
    assert answer.known_from.ToDatetime(BEGAN.tzinfo) == BEGAN + 3.2 * DAY
    assert after == before
    assert (code, out.splitlines()[-1]) == (0, "  the audit begins at 2026-11-25 16:48:00")


async def test_a_time_that_began_before_the_audit_is_kept_has_no_beginning() -> None:
    """The day of the first step is gone, and it went on."""
    async with an_operated_sidecar() as bench:
        await a_history(bench)
        await _removed(bench, BEGAN + 1.5 * DAY)
        assert (await periods(bench, principal=INSIDE))[0] == (None, BEGAN + 3 * DAY, 500)
        _, out, _ = await Desk(bench).say(show_active_periods, ActivePeriodsOptions("shop", user=INSIDE))
    assert out.splitlines()[1].startswith("  from before that to 2026-11-25")


async def test_the_command_line_shows_it_for_people_and_programs() -> None:
    """Begin, end, the ramp and the request that began it."""
    async with an_operated_sidecar() as bench:
        await a_history(bench)
        desk = Desk(bench)
        code, out, _ = await desk.say(show_active_periods, ActivePeriodsOptions("shop", share=8_000))
        never, told, _ = await desk.say(show_active_periods, ActivePeriodsOptions("shop", share=10_000))
        _, found = await desk.object(show_active_periods, ActivePeriodsOptions("shop", user=INSIDE))
        unknown, _, errors = await desk.say(show_active_periods, ActivePeriodsOptions("nobody", user=INSIDE))
    assert out == (
        "shop in slot shop, active for the first 80 %:\n"
        "  from 2026-11-24 12:00:00 to 2026-11-25 12:00:00  at 80 %, request request-4\n"
    )
    assert (code, never, told.splitlines()[-1]) == (0, 0, "  never")
    assert [each["ramp_basis_points"] for each in found["periods"]] == [500, 500]
    assert (unknown, "nobody" in errors) == (1, True)
    assert json.dumps(found)


async def test_a_question_without_a_cohort_is_refused() -> None:
    """Nobody, an empty user, a share of nothing or of more than all; and an id that is none."""
    async with an_operated_sidecar() as bench:
        for wrong in ({}, {"principal": ""}, {"share_basis_points": 0}, {"share_basis_points": 10_001}):
            failure = await failure_of(periods(bench, **wrong))
            assert failure.reason == "INVALID_REQUEST"
        request = pb.ListActivePeriodsRequest(definition_id="No Id", principal=INSIDE)
        failure = await failure_of(bench.lifecycle.ListActivePeriods(request, timeout=10, metadata=bench.role()))
        assert failure.reason == "INVALID_REQUEST"


async def why(bench: OperatedSidecar, at: datetime) -> list[object]:
    """Return what is explained of a user at a time."""
    request = reading_pb2.ExplainServingRequest(slot="shop", principal=INSIDE, at=timestamp(at))
    answer = await bench.lifecycle.ExplainServing(request, timeout=10, metadata=bench.role())
    return [(each.digest, each.verdict, each.ramp_basis_points, list(each.flags)) for each in answer.verdicts]


async def _removed(bench: OperatedSidecar, before: datetime) -> None:
    """Have everything handed on, and let retention remove what happened before."""
    for row in await bench.store.unexported(1000):
        await bench.store.became_effective([getattr(row.body, "event_id", "")], before)
    await bench.store.exported(await bench.store.unexported(1000))
    now, bench.clock.time = bench.clock.time, before + 90 * DAY
    problems: list[str] = []
    retention = AuditRetention(
        bench.store, RULES, HandSigner(), bench.clock, lambda kind, detail: problems.append(detail)
    )
    await retention.remove()
    bench.clock.time = now
    assert (problems, retention.removed > 0) == ([], True)
