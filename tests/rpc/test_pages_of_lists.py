"""Lists are read in pages, and a token is good for the list and the filters that it was made for."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from subagents.admin.v1 import admin_pb2
from subagents.dispatch.v1 import outcome_pb2
from subagents.history.v1 import history_pb2 as pb
from subagents.lifecycle.v1 import activity_pb2, reading_pb2
from tests.support.builders import a_card
from tests.support.fake_runner import raises
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.operators import an_operated_sidecar, gated
from tests.support.requests import failure_of
from tests.support.seen_turns import listed, stub

Ask = Callable[[Any], Awaitable[Any]]


async def a_turn(sidecar: SidecarForTests, turn_id: str, *tools: str, **fields: Any) -> None:
    """Have a turn."""
    bound = await sidecar.bind(turn_id=turn_id, **fields)
    await sidecar.dispatch(bound, *(tools or ("ask_shop",)))
    await sidecar.end(bound)


async def ids(sidecar: SidecarForTests, **filters: Any) -> list[str]:
    """Return the turns of one page."""
    return [row.turn_id for row in (await listed(sidecar, **filters)).turns]


async def pages(ask: Ask, request: Any, rows: str) -> list[list[Any]]:
    """Read all pages of a list."""
    found: list[list[Any]] = []
    while not found or request.page_token:
        answer = await ask(request)
        found.append(list(getattr(answer, rows)))
        request.page_token = answer.next_page_token
    return found


async def test_turns_are_found_by_user_definition_outcome_and_time() -> None:
    """Alone and together."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("rewards", raises(ValueError("x")))
        before = datetime.now(UTC) - timedelta(days=3650)
        await a_turn(sidecar, "t-1", principal="ada")
        await a_turn(sidecar, "t-2", "ask_shop", "ask_rewards", principal="ada")
        await a_turn(sidecar, "t-3", "ask_rewards", principal="bob")
        (second,) = [row for row in (await listed(sidecar)).turns if row.turn_id == "t-2"]

        failed = outcome_pb2.OUTCOME_FAILED
        assert await ids(sidecar, principal="ada") == ["t-2", "t-1"]
        assert await ids(sidecar, outcome=failed) == ["t-3", "t-2"]
        assert await ids(sidecar, outcome=failed, principal="ada") == ["t-2"]
        assert await ids(sidecar, definition_id="rewards", sub_agent_id="shop") == ["t-2"]
        assert await ids(sidecar, until=second.started_at) == ["t-1"]
        assert await ids(sidecar, since=second.started_at) == ["t-3", "t-2"]
        assert await ids(sidecar, until=before) == []


async def test_a_token_is_refused_with_other_filters_and_with_another_list() -> None:
    """The error says what to do; with its own filters it goes on, whatever the size of the page is now."""
    async with running_sidecar_for_tests() as sidecar:
        for number in range(3):
            await a_turn(sidecar, f"t-{number}", principal="ada", episode_id=f"e-{number}")
        first = await listed(sidecar, page_size=1, principal="ada")
        token = first.next_page_token
        other = await failure_of(listed(sidecar, page_size=1, principal="bob", page_token=token))
        episodes = pb.ListEpisodesRequest(page_token=token)
        elsewhere = await failure_of(stub(sidecar).ListEpisodes(episodes, metadata=sidecar.metadata))
        changed = await failure_of(listed(sidecar, principal="ada", page_token=token[:-4] + "AAAA"))

        assert await ids(sidecar, principal="ada", page_token=token, page_size=9) == ["t-1", "t-0"]
    for refused in (other, elsewhere):
        assert refused.reason == "INVALID_REQUEST"
        assert "send the filters of the first page, or leave the token out" in refused.fields["page_token"]
    assert "leave it out for the first page" in changed.fields["page_token"]


async def test_turns_that_begin_while_pages_are_read_move_nothing() -> None:
    """No turn comes twice, none is missing, and the new one is on none of the later pages."""
    async with running_sidecar_for_tests() as sidecar:
        for number in range(4):
            await a_turn(sidecar, f"t-{number}")
        first = await listed(sidecar, page_size=2)
        await a_turn(sidecar, "new")
        rest = await ids(sidecar, page_size=2, page_token=first.next_page_token)

    assert ([row.turn_id for row in first.turns], rest) == (["t-3", "t-2"], ["t-1", "t-0"])


async def test_a_page_size_beyond_the_largest_page_is_the_largest_page() -> None:
    """Asking for too many is no mistake of the caller."""
    async with running_sidecar_for_tests() as sidecar:
        for number in range(201):
            bound = await sidecar.bind(turn_id=f"t-{number}")
            await sidecar.end(bound)
        answer = await listed(sidecar, page_size=2**31 - 1)

    assert (len(answer.turns), bool(answer.next_page_token)) == (200, True)


async def test_episodes_are_read_in_pages() -> None:
    """Those used last first; each once."""
    async with running_sidecar_for_tests() as sidecar:
        for number in range(3):
            await a_turn(sidecar, f"t-{number}", episode_id=f"e-{number}")

        async def ask(request: pb.ListEpisodesRequest) -> pb.ListEpisodesResponse:
            return await stub(sidecar).ListEpisodes(request, timeout=10, metadata=sidecar.metadata)

        found = await pages(ask, pb.ListEpisodesRequest(page_size=2), "episodes")

    assert [[row.episode_id for row in page] for page in found] == [["e-2", "e-1"], ["e-0"]]


async def test_operators_read_every_list_in_pages() -> None:
    """Slots one at a time, by slot; lists that fit into one page have no token; a token of one list fits no other."""
    async with an_operated_sidecar(
        gated("shop"), a_card("rewards"), a_card("support"), unflagged_at_once=True
    ) as bench:
        await bench.promoted(ramp=500)

        def asks(service: Any, method: str) -> Ask:
            return lambda request: getattr(service, method)(request, timeout=10, metadata=bench.role())

        slots = await pages(
            asks(bench.lifecycle, "ListRollouts"), reading_pb2.ListRolloutsRequest(page_size=1), "slots"
        )
        token = (
            await asks(bench.lifecycle, "ListRollouts")(reading_pb2.ListRolloutsRequest(page_size=1))
        ).next_page_token
        others: list[tuple[Any, str, Any]] = [
            (bench.lifecycle, "ListReplicas", reading_pb2.ListReplicasRequest()),
            (bench.lifecycle, "ListDecommissions", reading_pb2.ListDecommissionsRequest()),
            (
                bench.lifecycle,
                "ListActivePeriods",
                activity_pb2.ListActivePeriodsRequest(definition_id="shop", share_basis_points=500),
            ),
            (bench.admin, "ListPlugins", admin_pb2.ListPluginsRequest()),
        ]
        for service, method, request in others:
            assert (await asks(service, method)(request)).next_page_token == "", method
            request.page_token = token
            refused = await failure_of(asks(service, method)(request))
            assert (refused.reason, list(refused.fields)) == ("INVALID_REQUEST", ["page_token"]), method

    assert [[slot.slot for slot in page] for page in slots] == [["rewards"], ["shop"], ["support"]]


@pytest.mark.parametrize("size", [-1, -(2**31)])
async def test_a_negative_page_size_is_refused(size: int) -> None:
    """In a list that is at hand as in one of the store."""
    async with an_operated_sidecar() as bench:
        request = reading_pb2.ListRolloutsRequest(page_size=size)
        refused = await failure_of(bench.lifecycle.ListRollouts(request, timeout=10, metadata=bench.role()))

    assert list(refused.fields) == ["page_size"]
