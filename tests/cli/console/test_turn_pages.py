"""Turns in the console: how they are searched, and how the page of a running one keeps up."""

import asyncio

from tests.support.console_visits import a_console
from tests.support.fake_runner import raises, waits_for
from tests.support.operators import an_operated_sidecar


async def test_turns_are_searched_by_time_and_a_wrong_time_is_said() -> None:
    """And a user who has none has none."""
    async with an_operated_sidecar() as bench, a_console(bench) as visitor:
        await bench.promoted(ramp=9999)
        await bench.sidecar.dispatch(await bench.sidecar.bind(principal="user-20"), "ask_shop")
        await visitor.sign_in(bench.token())
        found = [
            "turn-1" in (await visitor.get(f"/turns?{query}")).text
            for query in ("slot=shop", "user=user-20", "user=nobody", "outcome=failed", "definition=shop&state=open")
        ]
        wrong = [(await visitor.get(f"/turns?{query}")).text for query in ("since=soon", "reason=tired")]

    assert found == [True, True, False, False, True]
    assert ["is no time" in wrong[0], "no call ends with TIRED" in wrong[1]] == [True, True]


async def test_a_reason_finds_its_turns_however_many_others_there_are() -> None:
    """The sidecar searches: a page of turns has 50 rows, and the one that failed is older than all of these."""
    async with an_operated_sidecar() as bench, a_console(bench) as visitor:
        await bench.promoted(ramp=9999)
        bench.sidecar.runner.use("shop", raises(RuntimeError("no")))
        await bench.sidecar.dispatch(await bench.sidecar.bind(principal="user-20", turn_id="failed"), "ask_shop")
        for _ in range(51):
            await bench.sidecar.dispatch(await bench.sidecar.bind(principal="user-20"), "ask_nothing")
        await visitor.sign_in(bench.token())
        found = [
            "/turns/failed" in (await visitor.get(f"/turns?{query}")).text
            for query in ("", "reason=RUNNER_FAILED", "reason=RUNNER_FAILED&slot=shop", "reason=RUNNER_IDLE")
        ]

    assert found == [False, True, True, False]


async def test_the_page_of_a_running_turn_is_told_whenever_something_happens_until_the_turn_has_ended() -> None:
    """As server-sent events; a page that is closed is watched for no more, and polling ends with the turn."""
    answered = asyncio.Event()
    async with an_operated_sidecar() as bench, a_console(bench) as visitor:
        await bench.promoted(ramp=9999)
        await visitor.sign_in(bench.token())
        bench.sidecar.runner.use("shop", waits_for(answered))
        bound = await bench.sidecar.bind(principal="user-20", turn_id="turn-1")
        running = asyncio.ensure_future(bench.sidecar.dispatch(bound, "ask_shop"))
        await bench.sidecar.runner.until_started("shop")
        page = (await visitor.get("/turns/turn-1")).text
        open_part = await visitor.get("/turns/turn-1", hx_request="true")
        async with visitor.client.stream("GET", "/turns/turn-1/changes") as changes, asyncio.timeout(10):
            lines = changes.aiter_lines()
            first = await anext(lines)
            answered.set()
            await running
            await bench.sidecar.end(bound)
            told = [first, *[line async for line in lines if line]]
        last_part = await visitor.get("/turns/turn-1", hx_request="true")
        unknown = (await visitor.get("/turns/nothing/changes")).text

    assert 'data-changes="/turns/turn-1/changes"' in page
    assert changes.headers["content-type"].startswith("text/event-stream")
    assert (first, told[-2:]) == ("data: changed", ["event: last", "data: changed"])
    assert len(told) > 3
    assert (open_part.status_code, last_part.status_code) == (200, 286)
    assert unknown == "event: last\ndata: changed\n\n"
