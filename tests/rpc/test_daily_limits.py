"""A vertical limits how often one user may call its sub-agent in a day; the count is that of the record."""

import asyncio
from typing import Any

from sidecar.adapters.record_memory import JournalContents, MemoryStore
from sidecar.core.errors import StoreUnavailable
from sidecar.core.executing.stored_record import ListPage, TurnQuery, TurnRow
from sidecar.core.identifiers import InstanceId
from subagents.errors.v1 import error_reason_pb2
from tests.support.builders import a_card, with_limits
from tests.support.harness import Reply, SidecarForTests, running_sidecar_for_tests
from tests.support.lagging_lists import LaggingLists

REACHED, UNKNOWN = error_reason_pb2.ERROR_REASON_DAILY_LIMIT_REACHED, error_reason_pb2.ERROR_REASON_DAILY_LIMIT_UNKNOWN


def limited(calls: int) -> list[Any]:
    """Return shop with a limit, and rewards without one."""
    return [with_limits(a_card("shop"), calls_per_user_per_day=calls), a_card("rewards")]


async def asked(sidecar: SidecarForTests, *tools: str, principal: str = "ada", **fields: Any) -> Reply:
    """Dispatch calls in a turn of their own, which ends."""
    bound = await sidecar.bind(principal=principal, **fields)
    reply = await sidecar.dispatch(bound, *tools)
    await sidecar.end(bound)
    return reply


class SilentAboutLists(MemoryStore):
    """Answers no list while it is `unreadable`."""

    unreadable = False

    async def turns(self, query: TurnQuery) -> ListPage[TurnRow]:
        """Return a list, or say that there is none."""
        if self.unreadable:
            raise StoreUnavailable("there are no lists")
        return await super().turns(query)


async def test_the_call_beyond_the_limit_is_refused_and_its_sibling_runs() -> None:
    """Two a day: the third in another turn; another user is not concerned."""
    async with running_sidecar_for_tests(cards=limited(2)) as sidecar:
        first = [(await asked(sidecar, "ask_shop")).outcomes for _ in range(2)]
        third = await asked(sidecar, "ask_shop", "ask_rewards")
        other = await asked(sidecar, "ask_shop", principal="bob")

        assert first == [["SUCCEEDED"]] * 2
        assert third.outcomes == ["REFUSED", "SUCCEEDED"]
        assert third.of("call-1").status.reason == REACHED
        assert "tomorrow" in third.of("call-1").status.message
        assert other.outcomes == ["SUCCEEDED"]
        assert sidecar.recorder.of("daily_limit") == [("shop", "DAILY_LIMIT_REACHED")]


async def test_calls_of_one_dispatch_count_too() -> None:
    """Three in one response, two allowed: the first two run."""
    async with running_sidecar_for_tests(cards=limited(2)) as sidecar:
        reply = await asked(sidecar, "ask_shop", "ask_shop", "ask_shop")

        assert reply.outcomes == ["SUCCEEDED", "SUCCEEDED", "REFUSED"]


async def test_a_repeated_dispatch_is_not_counted_again() -> None:
    """It attaches to the first, whose answer it gets."""
    async with running_sidecar_for_tests(cards=limited(1)) as sidecar:
        bound = await sidecar.bind()
        first = await sidecar.dispatch(bound, "ask_shop", dispatch_id="d-1")
        again = await sidecar.dispatch(bound, "ask_shop", dispatch_id="d-1")
        further = await sidecar.dispatch(bound, "ask_shop", dispatch_id="d-2")

        assert again.result == first.result
        assert further.of("call-1").status.reason == REACHED
        assert sidecar.runner.started == ["shop"]


async def test_dispatches_at_the_same_time_do_not_exceed_the_limit() -> None:
    """Five turns of one user at once; one call is left."""
    async with running_sidecar_for_tests(cards=limited(1)) as sidecar:
        bound = [await sidecar.bind(principal="ada", turn_id=f"t-{number}") for number in range(5)]
        replies = await asyncio.gather(*(sidecar.dispatch(each, "ask_shop", dispatch_id="d") for each in bound))

        assert sorted(reply.outcomes[0] for reply in replies) == ["REFUSED"] * 4 + ["SUCCEEDED"]


async def test_neither_a_restart_nor_another_replica_begins_anew() -> None:
    """Two sidecars on one record, one after the other."""
    contents = JournalContents()
    outcomes = []
    for name in ("one", "two"):
        store = MemoryStore(contents, InstanceId(name))
        async with running_sidecar_for_tests(cards=limited(1), store=store) as sidecar:
            outcomes.append((await asked(sidecar, "ask_shop", turn_id=f"turn of {name}".replace(" ", "-"))).outcomes)

    assert outcomes == [["SUCCEEDED"], ["REFUSED"]]


async def test_while_the_record_cannot_say_the_call_is_refused_and_its_sibling_runs() -> None:
    """Unclear is closed; afterwards it is asked again."""
    store = SilentAboutLists()
    async with running_sidecar_for_tests(cards=limited(5), store=store) as sidecar:
        bound = await sidecar.bind()
        store.unreadable = True
        reply = await sidecar.dispatch(bound, "ask_shop", "ask_rewards")
        store.unreadable = False
        later = await sidecar.dispatch(bound, "ask_shop", dispatch_id="later")

        assert reply.outcomes == ["REFUSED", "SUCCEEDED"]
        assert reply.of("call-1").status.reason == UNKNOWN
        assert later.outcomes == ["SUCCEEDED"]


async def test_while_the_lists_lag_the_call_is_refused() -> None:
    """Calls of turns that are missing from a list would not count."""
    store = LaggingLists()
    async with running_sidecar_for_tests(cards=limited(3), store=store) as sidecar:
        replies = [await asked(sidecar, "ask_shop") for _ in range(3)]
        await store.projector.catch_up()
        later = await asked(sidecar, "ask_shop")

        assert [reply.outcomes for reply in replies] == [["SUCCEEDED"], ["SUCCEEDED"], ["REFUSED"]]
        assert replies[2].of("call-1").status.reason == UNKNOWN
        assert later.outcomes == ["SUCCEEDED"]
