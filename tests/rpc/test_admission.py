"""How much is taken on at once: running work counts, idle turns give way, and a refusal says when to come back."""

import asyncio
from datetime import timedelta
from typing import Any

from grpc import StatusCode

from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.identifiers import Vertical
from sidecar.operations.rules import AdmissionRules
from sidecar.operations.turn.state.open_turns import text_bytes
from subagents.dispatch.v1 import dispatch_pb2 as pb
from tests.support.builders import a_card
from tests.support.enum_words import word
from tests.support.fake_runner import answers, waits_for
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.records import kept
from tests.support.requests import failure_of
from tests.support.requirement import requirement

AT_ONCE: dict[str, Any] = {"rules": {"idle_lifetime": timedelta(0)}, "background": False}
"""A turn may be ended as soon as it is idle, and the test says when the reaper looks."""


def allowing(turns: int, **more: Any) -> dict[str, Any]:
    """Return what the harness needs to admit so much."""
    return {"rules": {"admission": AdmissionRules(turns=turns, **more)}}


def two_verticals() -> dict[str, Any]:
    """Return what the harness needs to have the shop in a vertical of its own."""
    return {"cards": [a_card("shop", vertical="shopping"), a_card("rewards", vertical="loyalty")]}


async def running(sidecar: SidecarForTests, bound: pb.BindTurnResponse, may_end: asyncio.Event) -> asyncio.Task[Any]:
    """Begin a dispatch that runs until it may end."""
    sidecar.runner.use("shop", waits_for(may_end))
    task = asyncio.create_task(sidecar.dispatch(bound, "ask_shop"))
    await sidecar.runner.until_started("shop")
    return task


async def hanging(sidecar: SidecarForTests, may_end: asyncio.Event, *principals: str) -> list[asyncio.Task[Any]]:
    """Begin a dispatch of each user that hangs in the shop until it may end; returns once all of them run."""
    sidecar.runner.use("shop", waits_for(may_end))
    before, works = sidecar.operations.dispatch_calls.running, []
    for principal in principals:
        bound = await sidecar.bind(principal=principal)
        works.append(asyncio.create_task(sidecar.dispatch(bound, "ask_shop")))
    for _ in range(10_000):
        if sidecar.operations.dispatch_calls.running == before + len(principals):
            return works
        await asyncio.sleep(0)
    raise AssertionError("not all of them run")


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


async def test_a_vertical_that_hangs_leaves_places_for_the_others() -> None:
    """4 places, of which a vertical may have 3: the shop hangs in 3; its fourth call is refused, 20 others are served.

    A dispatch that calls both is refused for the shop's sake. Once one of the shop's has ended, the next one is served.
    """
    may_end = asyncio.Event()
    async with running_sidecar_for_tests(**two_verticals(), **allowing(100, dispatches=4)) as sidecar:
        works = await hanging(sidecar, may_end, "user-1", "user-2", "user-3")

        refused = await failure_of(sidecar.dispatch(await sidecar.bind(), "ask_shop"))
        assert (refused.reason, refused.code) == ("VERTICAL_BUSY", StatusCode.RESOURCE_EXHAUSTED)
        assert (refused.metadata, refused.retry_after) == (
            {"limit": "vertical", "most": "3", "vertical": "shopping"},
            1.0,
        )
        both = await failure_of(sidecar.dispatch(await sidecar.bind(), "ask_rewards", "ask_shop"))
        assert (both.reason, sidecar.limits) == ("VERTICAL_BUSY", ["vertical"] * 2)
        assert sidecar.operations.dispatch_calls.places.by_vertical[Vertical("shopping")] == 3

        healthy = [await sidecar.dispatch(await sidecar.bind(), "ask_rewards") for _ in range(20)]
        assert [reply.outcomes for reply in healthy] == [["SUCCEEDED"]] * 20

        may_end.set()
        await asyncio.gather(*works)
        assert (await sidecar.dispatch(await sidecar.bind(), "ask_shop")).outcomes == ["SUCCEEDED"]
        assert set(sidecar.operations.dispatch_calls.places.by_vertical.values()) == {0}


async def test_a_single_vertical_may_have_every_place() -> None:
    """There is no other one to keep places for: the fourth dispatch runs, the fifth is refused for all of them."""
    may_end = asyncio.Event()
    cards = [a_card(slot, vertical="shopping") for slot in ("shop", "rewards")]
    async with running_sidecar_for_tests(cards=cards, **allowing(100, dispatches=4)) as sidecar:
        works = await hanging(sidecar, may_end, "user-1", "user-2", "user-3", "user-4")
        refused = await failure_of(sidecar.dispatch(await sidecar.bind(), "ask_shop"))
        assert (refused.reason, refused.metadata["limit"]) == ("ADMISSION_REFUSED", "dispatches")
        may_end.set()
        await asyncio.gather(*works)


async def test_one_user_leaves_places_for_others() -> None:
    """4 places, of which a user may have 2: a third dispatch is refused, in whichever turn; another user's runs."""
    may_end = asyncio.Event()
    async with running_sidecar_for_tests(**allowing(100, dispatches=4)) as sidecar:
        works = await hanging(sidecar, may_end, "user-1", "user-1")

        refused = await failure_of(sidecar.dispatch(await sidecar.bind(), "ask_rewards"))
        assert (refused.reason, refused.code) == ("PRINCIPAL_BUSY", StatusCode.RESOURCE_EXHAUSTED)
        assert (refused.metadata, refused.retry_after) == ({"limit": "principal", "most": "2"}, 1.0)
        other = await sidecar.dispatch(await sidecar.bind(principal="user-2"), "ask_rewards")
        assert (other.outcomes, sidecar.limits) == (["SUCCEEDED"], ["principal"])

        may_end.set()
        await asyncio.gather(*works)
        assert (await sidecar.dispatch(await sidecar.bind(), "ask_rewards")).outcomes == ["SUCCEEDED"]


async def test_beyond_the_limit_of_calls_turns_end_and_calls_are_cancelled() -> None:
    """Two of two calls are dispatches that hang: a bind is refused with its limit, an end and a cancel are answered."""
    may_end = asyncio.Event()
    async with running_sidecar_for_tests(calls=2) as sidecar:
        idle, first = await sidecar.bind(), await sidecar.bind()
        works = [await running(sidecar, first, may_end), *await hanging(sidecar, may_end, "user-2")]

        refused = await failure_of(sidecar.bind())
        assert (refused.reason, refused.metadata) == ("ADMISSION_REFUSED", {"limit": "calls", "most": "2"})
        assert (await sidecar.end(idle)).HasField("routing_decision")
        assert (await sidecar.end(first)).HasField("routing_decision")
        may_end.set()
        assert [(await work).outcomes for work in works] == [["FAILED"], ["SUCCEEDED"]]
        assert (await sidecar.bind()).surface_token


async def test_ended_turns_are_kept_up_to_so_many_bytes_and_the_record_answers_beyond() -> None:
    """Answers of 10,000 characters, room for 25,000 bytes: two turns keep theirs, older ones keep their end only.

    What is counted goes down again with each turn that loses its answers; a repeated end is answered in each case.
    """
    async with running_sidecar_for_tests(**allowing(9, ended_turns=100, ended_turn_bytes=25_000)) as sidecar:
        sidecar.runner.use("shop", answers("x" * 10_000))
        bound = [await sidecar.bind(turn_id=f"t-{number}") for number in range(5)]
        counted = []
        for number, each in enumerate(bound):
            await sidecar.dispatch(each, "ask_shop", dispatch_id=f"d-{number}")
            await sidecar.end(each)
            counted.append(sidecar.operations.turns.ended_bytes)

        assert [each // 10_000 for each in counted] == [1, 2, 2, 2, 2]
        assert max(counted) <= 25_000
        kept_whole = [turn for turn in sidecar.operations.turns if turn.dispatches]
        assert [turn.turn_id for turn in kept_whole] == ["t-3", "t-4"]
        assert sum(text_bytes(turn) for turn in kept_whole) == counted[-1]
        again = await sidecar.end(bound[0])
        assert [word(child, "final_status") for child in again.children] == ["completed"]
        assert (await sidecar.resume(bound[4], "d-4")).outcomes == ["SUCCEEDED"]


async def test_an_answer_that_is_larger_than_the_room_is_not_kept_at_all() -> None:
    """Not even while it is the only one."""
    async with running_sidecar_for_tests(**allowing(9, ended_turn_bytes=100)) as sidecar:
        sidecar.runner.use("shop", answers("x" * 10_000))
        bound = await sidecar.bind()
        await sidecar.dispatch(bound, "ask_shop")
        await sidecar.end(bound)
        assert sidecar.operations.turns.ended_bytes == 0
        assert [turn.dispatches for turn in sidecar.operations.turns] == [{}]
