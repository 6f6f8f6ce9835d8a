"""Two replicas on a real PostgreSQL, step by step beside the model of the rules.

One step after the other, so that the model says exactly what each has to come to: the answer, what is on record, what
is audited, and who is served at either replica. Now and then a request goes to both at once, or the connections of the
database are cut in its middle; who gets no answer asks again.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final, TypeVar

import pytest

from sidecar.adapters.postgresql import ConnectionTimeouts
from sidecar.adapters.rollout_postgresql import PostgresRollouts
from sidecar.adapters.tombstones import TombstonesInMemory
from sidecar.core.binding.candidates import evaluate_slots
from sidecar.core.errors import StoreUnavailable, SubagentsError
from sidecar.core.identifiers import InstanceId, Slot
from sidecar.core.rollout.serving import BindSubject
from sidecar.operations.process.rollout_assembly import RolloutOperations, RolloutPorts, assemble_rollout
from sidecar.operations.rollout.store.ports import AuditQuery, RolloutWrite
from sidecar.policy.lifecycle import Verdict
from tests.adapters.rollouts.test_postgresql import _emptied, database, dsn
from tests.support.operators_outside import FlagsForTests, ScriptedGates, SteppedClock
from tests.support.postgres import PostgresServer
from tests.support.requirement import requirement
from tests.support.rollouts_told import ToldRecorder
from tests.support.simulation.ports import BEGIN
from tests.support.simulation.rollout import cards, model, model_values
from tests.support.simulation.rollout.facts import same
from tests.support.simulation.rollout.generating import USERS, slots_at_the_beginning
from tests.support.simulation.rollout.model_leaving import in_the_way
from tests.support.simulation.rollout.model_serving import OFF, ON, Moment, who_serves
from tests.support.simulation.rollout.model_values import Said
from tests.support.simulation.rollout.outside import NoRecord
from tests.support.simulation.rollout.picking import BREAKER, BUILDER, LEAVER, OPERATOR, pick
from tests.support.simulation.rollout.replicas import Configured
from tests.support.simulation.rollout.translating import asked_of, happened_of, moves_of, rollout_of, slot_of
from tests.support.simulation.rollout.wishes import PROMOTE, STOPS, TAKE, Wish

Read = TypeVar("Read")
SCHEDULES: Final = int(os.environ.get("SIDECAR_SCHEDULES") or 0) // 10 or 40
STEPS: Final = 8
CONFIGURATION: Final = (("shop_one", "base"), ("shop_two", "base"), ("perks_one", "base"))
WITHOUT: Final = (("shop_one", "base"), ("shop_two", cards.TOOLS_LEFT), ("perks", cards.UNLISTED))
"""The same once two definitions are gone."""
VERDICTS: Final = (Verdict.PASS,) * 6 + (Verdict.FAIL, Verdict.FAIL, Verdict.PENDING, None)
CUT: Final = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'dispatch-sidecar'"
ATTEMPTS: Final = 60

__all__ = ("database", "dsn")
"""Fixtures."""


class CountedIds:
    """Ids, one after the other."""

    made = 0

    def new(self, kind: str) -> str:
        """Return the next."""
        self.made += 1
        return f"{kind}-{self.made}"


@dataclass
class Bench:
    """Two replicas, what is around them, and the model."""

    stores: tuple[PostgresRollouts, ...]
    chance: Random
    server: PostgresServer
    clock: SteppedClock = field(default_factory=SteppedClock)
    slots: dict[str, model_values.Slot] = field(default_factory=dict)
    replicas: list[RolloutOperations] = field(default_factory=list)
    audited: int = 0

    def __post_init__(self) -> None:
        """Begin when the model's time does."""
        self.clock.time = BEGIN
        self.flags = FlagsForTests(self.clock)
        self.gates = ScriptedGates(self.clock)
        self.configured = Configured(CONFIGURATION)
        if self.chance.random() < 0.3:
            self.configured.load(WITHOUT)

    async def begin(self) -> None:
        """Put slots on record as the rules may have made them, and start both replicas."""
        for slot in slots_at_the_beginning(self.chance, CONFIGURATION, self.chance.choice((0, 0, 6))):
            begun = replace(slot, revision=1)
            self.slots[slot.name] = begun
            write = RolloutWrite(slot=Slot(slot.name), expected_revision=0, rollout=rollout_of(begun))
            await self.stores[0].write(write)
        for each in (one for slot in self.slots.values() for one in slot.definitions):
            if each.flag is not None:
                self.flags.on |= dict.fromkeys((each.flag, f"{each.flag}_cohort"), each.flags == "on")
        self.replicas = [self.replica(store) for store in self.stores]
        for replica in self.replicas:
            await replica.views.look()

    def replica(self, store: PostgresRollouts) -> RolloutOperations:
        """Start one."""
        record: Any = NoRecord()
        return assemble_rollout(
            RolloutPorts(
                store=store,
                tombstones=TombstonesInMemory(),
                clock=self.clock,
                ids=CountedIds(),
                recorder=ToldRecorder(),
                definitions=self.configured,
                flags=self.flags,
                record=record,
                validate=self.configured.validated,
                turns=lambda: (),
                gate_for=lambda vertical, gate: self.gates,
                policies_of=lambda vertical: (),
                writer_of=lambda vertical: self.flags,
            )
        )

    def wish(self, number: int) -> Wish:
        """Return what somebody wants now."""
        role = self.chance.choice((OPERATOR,) * 4 + (BUILDER,) * 4 + (BREAKER,) + (LEAVER,) * 3)
        picked = pick(self.chance, tuple(self.slots.values()), role, 0.0)
        assert picked is not None
        slot = self.slots[cards.SLOT_OF[picked.name]]
        stale = self.chance.random() < 0.08
        revision = None if picked.kind in STOPS else slot.revision - stale
        said: Any = picked.said
        return Wish(f"r{number}", picked.kind, picked.name, "ada", "because", picked.content, revision=revision, **said)

    def wanted(self, wish: Wish) -> tuple[str, Said]:
        """Return what the answer has to be, `done` or a reason, and what the rules say."""
        slot = self.slots[cards.SLOT_OF[wish.name]]
        if wish.revision not in (None, slot.revision):
            return "REVISION_CONFLICT", model_values.refused("conflict")
        said, it = model.decide(slot, wish, 0.0), slot.meant(wish)
        assert it is not None
        if said.after is None or self.in_the_way(slot, wish, changes=said.after is not slot):
            return "TRANSITION_REFUSED", said
        to = wish.to if wish.kind == "set_ramp" else it.ramp
        waived = {each.gate for each in it.waivers if (each.since, each.to) == (it.ramp, to)}
        told = [(gate, self.gates.say.get(gate, Verdict.PASS)) for gate in said.gates]
        if any(verdict is Verdict.FAIL and gate not in waived for gate, verdict in told):
            return "GATE_FAILED", said
        if any(verdict not in (Verdict.PASS, Verdict.FAIL) for _, verdict in told):
            return "GATE_HELD", said
        return "done", said

    def in_the_way(self, slot: model_values.Slot, wish: Wish, *, changes: bool) -> bool:
        """Say whether the configuration refuses what the rules allow."""
        it, variants = slot.meant(wish), self.configured.variants
        assert it is not None
        if wish.kind == TAKE and changes:
            config, its = cards.config_for_the_model(variants), cards.parts_of(it.content)
            return any(in_the_way(slot, it, wish.step, config, its))
        return wish.kind == PROMOTE and all(each.digest != it.content for each in cards.cards_in(variants))

    async def ask(self, wish: Wish) -> set[str]:
        """Ask until there is an answer, at one replica or at both at once; returns all answers."""
        chance = self.chance
        places = (0, 1) if chance.random() < 0.15 else (chance.randint(0, 1),)
        cut = asyncio.to_thread(self.server.sql, CUT) if chance.random() < 0.04 else None
        attempts = [self.attempts(self.replicas[place], wish) for place in places]
        told = await asyncio.gather(*attempts, *([cut] if cut is not None else []))
        return set(told[: len(attempts)])

    async def attempts(self, replica: RolloutOperations, wish: Wish) -> str:
        """Ask one replica until it answers."""
        for _ in range(ATTEMPTS):
            try:
                await replica.step(asked_of(wish), wish.subject)
            except StoreUnavailable:
                await self.answers()
                continue
            except SubagentsError as refused:
                return refused.reason
            return "done"
        return "STORE_UNAVAILABLE"

    async def look(self) -> None:
        """Let stops that only hold come on record and both replicas look, through what is left of cut connections."""
        for replica in self.replicas:
            for _ in range(ATTEMPTS):
                await replica.stops.record.look()
                if not replica.tombstones.pending():
                    break
                await self.answers()
        for replica, store in zip(self.replicas, self.stores, strict=True):
            for _ in range(ATTEMPTS):
                await replica.views.look()
                with suppress(StoreUnavailable):
                    if replica.views.current().version >= await store.version():
                        break
                await self.answers()

    async def answers(self) -> None:
        """Wait until somebody else has had an answer of the database: a moment that the test does not make up."""
        await asyncio.to_thread(self.server.sql, "select 1")

    async def rows(self) -> tuple[Any, ...]:
        """Return what was audited since the last time."""
        rows = await confirmed(lambda: self.stores[0].audit(AuditQuery(after=self.audited, limit=500)), self.answers)
        self.audited = rows[-1].number if rows else self.audited
        return tuple(row.body for row in rows)

    def served(self, place: int, slot: str, asker: BindSubject) -> str | None:
        """Return who serves somebody at a replica."""
        view, catalogue = self.replicas[place].stops.rollouts(), self.configured.current()
        assert catalogue is not None
        return evaluate_slots(Slot(slot), catalogue, self.flags.current(), view, asker).digest


async def confirmed(read: Callable[[], Awaitable[Read]], pause: Callable[[], Awaitable[None]]) -> Read:
    """Read, through whatever is left of cut connections."""
    for _ in range(ATTEMPTS):
        with suppress(StoreUnavailable):
            return await read()
        await pause()
    return await read()


async def followed(bench: Bench, seed: int) -> None:
    """Take the steps of a schedule, and compare after each."""
    await bench.begin()
    for number in range(STEPS):
        bench.gates.say = {gate: bench.chance.choice(VERDICTS) for gate in ("pre_merge", "pre_ramp", "pre_full")}
        wish = bench.wish(number)
        reason, said = bench.wanted(wish)
        told = await bench.ask(wish)
        name = cards.SLOT_OF[wish.name]
        if reason == "done" and said.after is not None:
            bench.slots[name] = said.after
        await bench.look()
        where = f"seed {seed}, step {number}: {wish}"
        assert told == {reason}, where
        found = await confirmed(bench.stores[1].rollouts, bench.answers)
        on_record = {each.slot: slot_of(each, 0.0) for each in found}
        for slot in bench.slots.values():
            assert same(slot, on_record[Slot(slot.name)], 0.0), f"{where}: {slot} is {on_record[Slot(slot.name)]}"
        await audited_as(bench, reason, said, where)
        served_as(bench, where)


async def audited_as(bench: Bench, reason: str, said: Said, where: str) -> None:
    """Compare what a step has written into the audit."""
    rows = await bench.rows()
    transitions = tuple(each for each in rows if not hasattr(each, "what"))
    events = tuple(each for each in rows if hasattr(each, "what"))
    if reason == "REVISION_CONFLICT":
        assert rows == (), where
    elif reason != "done":
        assert [str(each.what) for each in events] == ["held" if reason == "GATE_HELD" else "refused"], where
        assert transitions == (), where
    else:
        assert moves_of(transitions) == said.moves, where
        assert sorted(happened_of(events)) == sorted(said.happened), where


def served_as(bench: Bench, where: str) -> None:
    """Compare who is served at either replica."""
    moment = Moment(lambda name: ON if bench.flags.on.get(name) else OFF)
    for user, arm in zip(bench.chance.sample(USERS, 3), ("", "control", ""), strict=True):
        for name, slot in bench.slots.items():
            wanted = who_serves(slot, user, arm, moment)
            assert [bench.served(place, name, BindSubject(user, arm)) for place in (0, 1)] == [wanted] * 2, where


@asynccontextmanager
async def two_stores(dsn: str) -> AsyncIterator[tuple[PostgresRollouts, ...]]:
    """Open the database as two processes do."""
    stores = tuple(PostgresRollouts(dsn, InstanceId(name), ConnectionTimeouts()) for name in ("one", "two"))
    try:
        yield stores
    finally:
        for store in stores:
            await store.close()


@requirement("PF1-T-21", "PF1-D-13")
@pytest.mark.system
@pytest.mark.seconds(240)
async def test_two_replicas_on_postgresql_do_step_by_step_what_the_model_says(
    dsn: str, postgres: PostgresServer
) -> None:
    """Some schedules, a thousand in `make torture`; the seed of one that differs is in the failure."""
    async with two_stores(dsn) as stores:
        for seed in range(SCHEDULES):
            await _emptied(dsn)
            await followed(Bench(stores, Random(f"postgresql {seed}"), postgres), seed)
