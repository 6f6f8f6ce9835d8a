"""The measured targets, one after the other, round after round, and what the numbers come to."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from scripts.benchmark.cohort_checks import USUAL as USUAL_CHECKS
from scripts.benchmark.cohort_checks import cohort_checks
from scripts.benchmark.definitions import write_definitions
from scripts.benchmark.durable.peers import durable_peers
from scripts.benchmark.lane_slots import lane_slots
from scripts.benchmark.load import Sample, measure, measure_open
from scripts.benchmark.peers import AGENTS, INSTANT_NODE, SAVED, TOOL_NODE, Peer, langgraph
from scripts.benchmark.plan import Plan
from scripts.benchmark.postgres import Postgres, postgres
from scripts.benchmark.record_files import facts_not_listed
from scripts.benchmark.replicas import USUAL as USUAL_ACTIONS
from scripts.benchmark.replicas import replicas
from scripts.benchmark.starting import Started, servers
from scripts.benchmark.starts import USUAL as USUAL_STARTS
from scripts.benchmark.starts import starts
from scripts.benchmark.targets import (
    BARE,
    BARE_START,
    COHORT,
    IN_LANGGRAPH,
    IN_POSTGRES,
    MANY,
    MORE,
    OPEN,
    SLEEPING_TURNS,
    START,
    TAKEN_AWAY,
    TWIN,
    Cell,
    Slot,
    at,
    cells,
)

A_A_TOLERANCE: Final = 0.10
"""Two runs of the same server may differ by this much; if they differ by more, nothing in the run means anything."""

Series = Mapping[tuple[str, int], Sequence[Sample]]
"""The samples of each target and number in flight, a sample for each round."""


async def run(plan: Plan) -> Series:
    """Measure every target in every round; LangGraph's only if it is installed. Raises `ServerLost`, `WrongAnswer`.

    The same target of two revisions have their turns next to each other; which of them is first alternates.
    """
    samples: dict[tuple[str, int], list[Sample]] = {}
    wanted = plan.databases and plan.asks(IN_POSTGRES)
    async with (
        postgres(wanted=wanted) as databases,
        servers(plan, databases) as started,
        _others(plan, databases) as others,
    ):
        groups = [*_groups(plan, started, samples), *([slot] for slot in others)]
        for slot in chain.from_iterable(groups if plan.warms_up else ()):
            await slot.take(max(slot.in_flight, 1))  # connections, caches and code are warm after this
        for number in range(plan.rounds):
            for slot in chain.from_iterable(group[:: -1 if number % 2 else 1] for group in groups):
                sample = await slot.take(plan.requests(slot.usual, slot.in_flight))
                samples.setdefault((slot.target, slot.in_flight), []).append(sample)
    return samples


def _groups(plan: Plan, started: Started, series: Series) -> Sequence[Sequence[Slot]]:
    """Return what has its turn, each with the same of another revision if there is one."""
    own = cells(started.own, started.bare, plan.rows)
    groups = [[_slot(cell, started, series)] for cell in own]
    if started.other is not None and plan.against is not None:
        for group, cell in zip(groups, cells(started.other, started.bare, plan.rows), strict=True):
            if cell.server not in {started.bare.server, started.bare.twin}:
                named = replace(cell, target=at(cell.target, plan.against.name))
                group.append(_slot(named, started, series))
    return groups


def twins_agree(series: Series) -> tuple[bool, Mapping[int, float]]:
    """Say whether the two bare servers came out alike, and how their rates compare, by number in flight."""
    ratios = {
        in_flight: median(_rates(series, TWIN, in_flight)) / median(_rates(series, BARE, in_flight))
        for in_flight in (1, MANY, MORE)
        if (TWIN, in_flight) in series
    }
    return all(abs(ratio - 1) <= A_A_TOLERANCE for ratio in ratios.values()), ratios


def _rates(series: Series, target: str, in_flight: int) -> list[float]:
    return [sample.rate for sample in series[target, in_flight]]


def _slot(cell: Cell, started: Started, series: Series) -> Slot:
    async def take(count: int) -> Sample:
        requests = await cell.prepare(count)
        if cell.in_flight == OPEN:
            sample = await _half_as_much(cell, requests, series)
        else:
            sample = await measure(cell.server, cell.call, requests, cell.in_flight)
        if started.own.sqlite is not None and cell.server is started.own.sqlite.server:
            sample = replace(sample, not_listed=facts_not_listed(started.own.sqlite.folder))
        await started.end_all()
        return sample

    return Slot(cell.target, cell.in_flight, cell.usual, take)


async def _half_as_much(cell: Cell, requests: Sequence[Any], series: Series) -> Sample:
    """Measure in an open loop, at half of the rate that the target came to so far; all at once if that is not known."""
    if (cell.target, MANY) not in series:
        return await measure(cell.server, cell.call, requests, len(requests))
    rate = median(_rates(series, cell.target, MANY)) / 2
    return await measure_open(cell.server, cell.call, requests, rate, len(series.get((cell.target, OPEN), ())))


@asynccontextmanager
async def _others(plan: Plan, databases: Postgres | None) -> AsyncIterator[Sequence[Slot]]:
    """Start what is no server of one request: other frameworks, cohort checks, starts, replicas."""
    found: list[Slot] = []
    async with AsyncExitStack() as started:
        found += await started.enter_async_context(lane_slots(plan))
        if plan.asks(IN_LANGGRAPH):
            found += _peer_slots(await started.enter_async_context(langgraph(plan.server_cpu)), plan)
        if plan.asks(frozenset({4})):
            durable = await started.enter_async_context(durable_peers(plan, databases))
            found += [Slot(target, 1, SLEEPING_TURNS, take) for target, take in durable.items()]
        if plan.asks(frozenset({8})):
            checks = await started.enter_async_context(cohort_checks(plan.server_cpu))
            found.append(Slot(COHORT, 1, USUAL_CHECKS, checks.measure))
        if plan.asks(frozenset({11})):
            folder = Path(started.enter_context(TemporaryDirectory(prefix="bench-")))
            write_definitions(folder / "definitions")
            named = zip((BARE_START, START), starts(folder, folder / "definitions", plan.server_cpu), strict=True)
            found += [Slot(name, 1, USUAL_STARTS, each.measure) for name, each in named]
        if plan.asks(frozenset({13})) and databases is not None:
            folder = Path(started.enter_context(TemporaryDirectory(prefix="bench-")))
            actions = plan.rounds * plan.requests(USUAL_ACTIONS, 1) + 1  # one more to warm up
            dsn = await databases.database("replicas")
            taking = await started.enter_async_context(replicas(folder, dsn, actions, plan.on_core))
            found.append(Slot(TAKEN_AWAY, 1, USUAL_ACTIONS, taking.measure))
        yield found


def _peer_slots(peer: Peer | None, plan: Plan) -> Sequence[Slot]:
    if peer is None:
        return ()
    targets = [TOOL_NODE] if plan.asks(frozenset({2, 4})) else []
    if plan.asks(frozenset({4})):
        targets += [*([SAVED] if plan.databases else []), AGENTS]
    found = [Slot(target, 1, SLEEPING_TURNS, partial(peer.measure, target)) for target in targets]
    if plan.asks(frozenset({5})):
        found.append(Slot(INSTANT_NODE, 1, 200, partial(peer.measure, INSTANT_NODE)))
    return found
