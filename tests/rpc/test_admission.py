"""How much is taken on at once: running work counts, idle turns give way, and a refusal says when to come back."""

import asyncio
from datetime import timedelta
from typing import Any

from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.operations.rules import AdmissionRules
from subagents.dispatch.v1 import dispatch_pb2 as pb
from tests.support.enum_words import word
from tests.support.fake_runner import waits_for
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.records import kept
from tests.support.requests import failure_of
from tests.support.requirement import requirement

AT_ONCE: dict[str, Any] = {"rules": {"idle_lifetime": timedelta(0)}, "background": False}
"""A turn may be ended as soon as it is idle, and the test says when the reaper looks."""


def allowing(turns: int, **more: Any) -> dict[str, Any]:
    """Return what the harness needs to admit so much."""
    return {"rules": {"admission": AdmissionRules(turns=turns, **more)}}


async def running(sidecar: SidecarForTests, bound: pb.BindTurnResponse, may_end: asyncio.Event) -> asyncio.Task[Any]:
    """Begin a dispatch that runs until it may end."""
    sidecar.runner.use("shop", waits_for(may_end))
    task = asyncio.create_task(sidecar.dispatch(bound, "ask_shop"))
    await sidecar.runner.until_started("shop")
    return task


@requirement("PC2-FR-15a")
async def test_turns_that_nobody_ends_never_keep_others_from_being_bound() -> None:
    """Room for 2 turns with work and 5 idle ones; 40 are bound and left alone: each bind is answered.

    The 35 oldest are ended on record as those of lost parents are; the newest ones, and one that works, go on.
    """
    may_end = asyncio.Event()
    async with running_sidecar_for_tests(**allowing(2, idle_turns=5)) as sidecar:
        works = await running(sidecar, await sidecar.bind(turn_id="t-works"), may_end)
        bound = [await sidecar.bind(turn_id=f"t-{number}") for number in range(40)]

        assert word((await sidecar.end(bound[34])).routing_decision, "close_reason") == "parent_lost"
        ended = kept(sidecar, RoutingRecord)
        assert [record.turn_id for record in ended] == [f"t-{number}" for number in range(35)]
        assert sidecar.recorder.of("idle_turn_ended") == [("room",)] * 35
        assert (sidecar.operations.turns.idle, sidecar.operations.turns.open) == (5, 6)
        assert (await failure_of(sidecar.dispatch(bound[0], "ask_shop"))).reason == "TURN_ENDED"

        may_end.set()
        assert (await works).outcomes == ["SUCCEEDED"]
        assert (await sidecar.dispatch(bound[-1], "ask_shop")).outcomes == ["SUCCEEDED"]
        assert sidecar.limits == []


async def test_a_turn_that_is_asked_for_is_not_the_next_to_be_ended() -> None:
    """Two idle turns fit; the older one dispatches, so that the other is the oldest when a third one is bound."""
    async with running_sidecar_for_tests(**allowing(2, idle_turns=2)) as sidecar:
        first, second = [await sidecar.bind(turn_id=turn_id) for turn_id in ("t-1", "t-2")]
        await sidecar.dispatch(first, "ask_shop")
        await sidecar.bind(turn_id="t-3")

        assert word((await sidecar.end(second)).routing_decision, "close_reason") == "parent_lost"
        assert [word(child, "final_status") for child in (await sidecar.end(first)).children] == ["completed"]


async def test_turns_are_refused_while_too_many_work_and_told_when_to_come_back() -> None:
    """Room for one turn with work: the next bind is refused until that is done, and so is a second dispatch elsewhere.

    Each refusal names its limit, and is counted by it.
    """
    may_end = asyncio.Event()
    async with running_sidecar_for_tests(**allowing(1, dispatches=1)) as sidecar:
        other, working = await sidecar.bind(), await sidecar.bind()
        works = await running(sidecar, working, may_end)

        bind, dispatch = await failure_of(sidecar.bind()), await failure_of(sidecar.dispatch(other, "ask_shop"))
        for refused, limit in ((bind, "turns"), (dispatch, "dispatches")):
            assert (refused.reason, refused.metadata) == ("ADMISSION_REFUSED", {"limit": limit, "most": "1"})
            assert refused.retry_after is not None
            assert 0.1 <= refused.retry_after < 10
        too_short = await failure_of(sidecar.dispatch(working, "ask_shop", seconds=0.1))
        assert (too_short.reason, sidecar.limits) == ("DEADLINE_TOO_SHORT", ["turns", "dispatches", "time_left"])

        may_end.set()
        await works
        assert (await sidecar.dispatch(await sidecar.bind(), "ask_shop")).outcomes == ["SUCCEEDED"]


async def test_an_idle_turn_is_ended_after_its_lifetime_and_a_working_one_is_not() -> None:
    """One was bound and left alone, one has dispatched and was left alone, one has a call that runs."""
    may_end = asyncio.Event()
    async with running_sidecar_for_tests(**AT_ONCE) as sidecar:
        await sidecar.bind(turn_id="t-bound")
        await sidecar.dispatch(await sidecar.bind(turn_id="t-dispatched"), "ask_rewards")
        works = await running(sidecar, await sidecar.bind(turn_id="t-works"), may_end)

        await sidecar.operations.reaper.look()

        ended = {record.turn_id: record.close_reason for record in kept(sidecar, RoutingRecord)}
        assert ended == {"t-bound": "parent_lost", "t-dispatched": "parent_lost"}
        assert sidecar.recorder.of("idle_turn_ended") == [("lifetime",)] * 2
        may_end.set()
        assert (await works).outcomes == ["SUCCEEDED"]


async def test_of_the_oldest_ended_turns_nothing_is_kept_and_the_record_answers() -> None:
    """One is kept whole and four with their end: the end of the first of seven is read from the record."""
    async with running_sidecar_for_tests(**allowing(9, ended_turns=1)) as sidecar:
        bound = [await sidecar.bind(turn_id=f"t-{number}") for number in range(7)]
        await sidecar.dispatch(bound[0], "ask_shop", dispatch_id="d-0")
        ends = [await sidecar.end(each) for each in bound]

        assert [turn.turn_id for turn in sidecar.operations.turns] == [f"t-{number}" for number in range(2, 7)]
        again = await sidecar.end(bound[0])
        assert (again.children, again.routing_decision) == (ends[0].children, ends[0].routing_decision)
        assert (await failure_of(sidecar.dispatch(bound[1], "ask_shop"))).reason == "TURN_ENDED"
