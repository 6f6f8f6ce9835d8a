"""What is counted: turns without a store and with a record in SQLite, and the cohort check of a bind."""

import asyncio
import os
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from scripts.benchmark.clients import DISPATCHES_PER_TURN
from scripts.benchmark.definitions import MOST_CHILDREN
from scripts.benchmark.sidecar_server import MEMORY, SQLITE, Varied
from sidecar.observability.logging import logging_to
from sidecar.observability.redaction import Redactor
from tests.budgets.cohort_check import cohort_check
from tests.budgets.lane_ends import by_a_client
from tests.budgets.meter import CountingLoop, Counts, Meter, Spot, tables_of, watched_sqlite
from tests.budgets.served import Served, check, check_lane, served

AT_ONCE: Final = 16
"""Dispatches that are queued when the writer begins."""

BEFORE: Final = 160
"""Dispatches that are on record already."""
COHORT_CHECK: Final = "cohort check"
SDK: Final = "subagents_client."

Counted = Mapping[tuple[str, str], Counts]
"""By scenario and record."""
Scenario = Callable[[Meter, Served], Awaitable[Counts]]


async def bind(meter: Meter, sidecar: Served) -> Counts:
    """Bind a turn."""
    _, counts = await meter.count([sidecar.answered("BindTurn", sidecar.a_bind())], sidecar.running)
    return counts


async def end(meter: Meter, sidecar: Served) -> Counts:
    """End a turn of four dispatches."""
    bound = await sidecar.bind()
    for _ in range(DISPATCHES_PER_TURN):
        await sidecar.dispatched(sidecar.a_dispatch(bound, 1))
    _, counts = await meter.count([sidecar.answered("EndTurn", sidecar.an_end(bound))], sidecar.running)
    return counts


def dispatches(count: int, children: int) -> Scenario:
    """Return what dispatches in so many turns at the same time, and counts messages, too."""

    async def dispatch(meter: Meter, sidecar: Served) -> Counts:
        turns = [await sidecar.bind() for _ in range(count)]
        works = [sidecar.dispatched(sidecar.a_dispatch(bound, children)) for bound in turns]
        answers, counts = await meter.count(works, sidecar.running)
        for messages in answers:
            check(messages, children)
        return {**counts, "messages": Counter({Spot("the stream"): sum(map(len, answers))})}

    return dispatch


async def over_a_lane(meter: Meter, sidecar: Served) -> Counts:
    """Dispatch in so many turns at the same time over one lane, which is opened and closed for it."""
    requests = [sidecar.a_dispatch(await sidecar.bind(), 1) for _ in range(AT_ONCE)]
    (messages,), counts = await meter.count([sidecar.dispatched_over_a_lane(requests)], sidecar.running)
    check_lane(messages, AT_ONCE, 1)
    return {**counts, "messages": Counter({Spot("the lane"): len(messages)})}


async def by_the_client(meter: Meter, sidecar: Served) -> Counts:
    """Do the same with the lane of the SDK, and count the calls of the SDK alone."""
    requests = [sidecar.a_dispatch(await sidecar.bind(), 1) for _ in range(AT_ONCE)]
    ((joined, answers),), counts = await meter.count([by_a_client(sidecar, requests)], sidecar.running)
    for each in answers:
        check(each, 1)
    calls = {spot: count for spot, count in counts["calls"].items() if spot.place.startswith(SDK)}
    messages = {Spot("to the sidecar"): joined.requests, Spot("to the client"): joined.responses}
    return {"calls": Counter(calls), "messages": Counter(messages)}


async def projected(meter: Meter, sidecar: Served) -> Counts:
    """Take turns of one dispatch each into the lists, in one pass. That writes a file of its own, beside dispatches."""
    for _ in range(AT_ONCE):
        bound = await sidecar.bind()
        await sidecar.dispatched(sidecar.a_dispatch(bound, 1))
        ended = sidecar.answered("EndTurn", sidecar.an_end(bound))
        await meter.count([ended], sidecar.running)  # its conversation is written, too, before this counts
    _, counts = await meter.count([sidecar.project()], sidecar.running)
    return counts


SCENARIOS: Final[Mapping[tuple[str, str], Scenario]] = {
    (name, record): scenario
    for record in (MEMORY, SQLITE)
    for name, scenario in {
        "bind": bind,
        "end": end,
        "one": dispatches(1, 1),
        "eight": dispatches(1, MOST_CHILDREN),
        "one, queued": dispatches(AT_ONCE, 1),
        "eight, queued": dispatches(AT_ONCE, MOST_CHILDREN),
        "one, over a lane": over_a_lane,
        "projected": projected,
    }.items()
    if (name, record) != ("eight", SQLITE) and (record == SQLITE or not {"queued", "projected"} & set(name.split()))
} | {("one, by the client of a lane", MEMORY): by_the_client}


async def _filled(folder: Path) -> None:
    """Make a record of some hundred dispatches: in an empty one, all that is written would share a few pages."""
    async with served(folder, Varied(SQLITE, lanes=True), seed=0) as sidecar:
        for _ in range(BEFORE // AT_ONCE):
            turns = [await sidecar.bind() for _ in range(AT_ONCE)]
            await asyncio.gather(*(sidecar.dispatched(sidecar.a_dispatch(bound, 1)) for bound in turns))


def counted(chosen: Collection[tuple[str, str]] = SCENARIOS.keys()) -> Counted:
    """Count scenarios, each with a sidecar of its own, and the cohort check."""
    meter = Meter()
    with ExitStack() as stack:
        nowhere = stack.enter_context(Path(os.devnull).open("w", encoding="utf-8"))
        stack.enter_context(logging_to(nowhere, "json", "info", Redactor()))
        stack.enter_context(watched_sqlite(meter))
        runner = stack.enter_context(asyncio.Runner(loop_factory=lambda: CountingLoop(meter)))
        before = Path(stack.enter_context(TemporaryDirectory(prefix="budgets-")))
        runner.run(_filled(before))
        found = {
            where: runner.run(_counted(meter, where[1], scenario, before))
            for where, scenario in SCENARIOS.items()
            if where in chosen
        }
    return {**found, (COHORT_CHECK, MEMORY): cohort_check()}


async def _counted(meter: Meter, record: str, scenario: Scenario, before: Path) -> Counts:
    """Count a scenario in a sidecar that has just done the same: what is made on first use is there."""
    with TemporaryDirectory(prefix="budgets-") as name:
        folder = Path(name)
        if record == SQLITE:
            shutil.copytree(before, folder, dirs_exist_ok=True)
        async with served(folder, Varied(record, lanes=True)) as sidecar:
            await dispatches(1, MOST_CHILDREN)(meter, sidecar)
            for warm_up in (bind, end, dispatches(1, 1)):
                await warm_up(meter, sidecar)
            if scenario in {over_a_lane, by_the_client}:
                await scenario(meter, sidecar)
            if scenario is projected:
                await sidecar.project()
            counts = await scenario(meter, sidecar)
        return {**counts, "pages": tables_of(Counter(counts.get("pages", ())), folder)}
