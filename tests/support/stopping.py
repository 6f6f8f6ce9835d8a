"""Replicas that can stop sub-agents, over one store, with a flag backend that can be away."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec

from sidecar.adapters.flags_memory import FlagFault, MemoryFlags
from sidecar.adapters.rollout_memory import MemoryRollouts, RolloutsInMemory
from sidecar.adapters.tombstones import TombstonesInMemory
from sidecar.core.definitions.cards.card import Card
from sidecar.core.flag_states import FlagRoutes
from sidecar.core.identifiers import Digest, InstanceId, Vertical
from sidecar.core.rollout.events import RolloutEvent, TransitionEvent
from sidecar.core.rollout.facts import DefinitionFacts, FlagPair, SlotRollout
from sidecar.core.rollout.states import LifecycleState
from sidecar.operations.flag_snapshot import FlagContactChanged, FlagSnapshotKeeper, FlagTiming
from sidecar.operations.rollout.requests import Kill, StepRequest
from sidecar.operations.rollout.steps.step_flags import FlagSwitching
from sidecar.operations.rollout.steps.take_step import ExecuteStep
from sidecar.operations.rollout.stops.assembly import Stops, stops
from sidecar.operations.rollout.stops.local_stop import ApplyStopLocally
from sidecar.operations.rollout.store.ports import RolloutWrite, Tombstones
from sidecar.operations.rollout.stored_answers import AuditContext
from sidecar.operations.rollout.views.snapshot import RolloutViews
from tests.support.builders import a_card
from tests.support.harness import KeepingRecorder
from tests.support.plugin_calls import plugin_calls


class NothingToProve:
    """In the place of `Proofs`, for steps that are about something else."""

    async def prove(self, asked: StepRequest, rollout: SlotRollout, facts: DefinitionFacts) -> None:
        """Find everything proven."""


BEGIN = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass
class HandClock:
    """A clock that a test moves; a moment passes with each look, as it does outside."""

    seconds: float = 1000.0

    def now(self) -> datetime:
        """Return the date."""
        return BEGIN + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        """Return the seconds, a millisecond more each time."""
        self.seconds += 0.001
        return self.seconds


class SwitchedFlags:
    """The port `FlagWriter` over a backend in memory."""

    def __init__(self, backend: MemoryFlags, edit: str = "") -> None:
        """Keep it; with `edit`, a person has to switch."""
        self.backend = backend
        self.away = False
        self.edit = edit

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Switch a flag, or fail like a backend that is away."""
        if self.away:
            raise ConnectionError("the flag backend was told to be away")
        self.backend.set(name, on=on)

    def edit_for(self, name: str, on: bool) -> str:
        """Return the edit."""
        return self.edit


@dataclass(frozen=True)
class ReplicaForTests:
    """One sidecar's part of stopping."""

    store: MemoryRollouts
    tombstones: Tombstones
    views: RolloutViews
    recorder: KeepingRecorder
    backend: MemoryFlags
    writer: SwitchedFlags
    snapshots: FlagSnapshotKeeper
    stops: Stops
    clock: HandClock

    def away(self, *, store: bool = False, backend: bool = False) -> None:
        """Let store and backend be away, or back."""
        self.store.away = store
        self.writer.away = backend
        self.backend.misbehave(FlagFault.RAISE if backend else FlagFault.NONE)

    async def look(self) -> None:
        """Let every loop look once."""
        await self.snapshots.refresh_all()
        await self.views.look()
        await self.stops.edges.look()
        await self.stops.record.look()
        await self.stops.effective.look()


@dataclass
class Rollouts:
    """One store, its backend, and what a test needs to begin with.

    Attributes:
        loaded: cards that every replica has loaded.
    """

    contents: RolloutsInMemory = field(default_factory=RolloutsInMemory)
    clock: HandClock = field(default_factory=HandClock)
    backend: MemoryFlags = field(default_factory=MemoryFlags)
    loaded: dict[Digest, Card] = field(default_factory=dict)

    async def replica(
        self, name: str = "a", tombstones: Tombstones | None = None, writer: SwitchedFlags | None = None
    ) -> ReplicaForTests:
        """Start a replica; it has looked once."""
        store = MemoryRollouts(self.clock, self.contents, InstanceId(name))
        kept, recorder = tombstones or TombstonesInMemory(), KeepingRecorder()
        views = RolloutViews(store, kept, self.clock, cast("Any", recorder))
        switched = writer or SwitchedFlags(self.backend)
        observed: list[Stops] = []

        def observe(change: FlagContactChanged) -> None:
            for each in observed:
                each.edges.observe(change)

        snapshots = FlagSnapshotKeeper(
            {"memory": self.backend},
            FlagRoutes("memory"),
            self.clock,
            FlagTiming(),
            observe,
            plugin_calls(),
        )
        take = ExecuteStep(
            store=store,
            clock=self.clock,
            audit_context=lambda: AuditContext("5", snapshots.current().active_flags(self.mentioned())),
            proofs=cast("Any", NothingToProve()),
            policies=cast("Any", None),
            gates=cast("Any", None),
            flags=FlagSwitching(
                writer_of=lambda vertical: switched, snapshot=snapshots.current, shown=lambda: views.current().slots
            ),
            by_hand=cast("Any", None),
            decommissioning=cast("Any", None),
        )
        first = ApplyStopLocally(
            store=store, tombstones=kept, views=views, clock=self.clock, recorder=cast("Any", recorder)
        )
        made = stops(first, take, self.loaded.get)
        observed.append(made)
        replica = ReplicaForTests(store, kept, views, recorder, self.backend, switched, snapshots, made, self.clock)
        await replica.look()
        return replica

    def transitions(self) -> list[TransitionEvent]:
        """Return the lifecycle events on record."""
        return [row.body for row in self.contents.audit.values() if isinstance(row.body, TransitionEvent)]

    def happened(self) -> list[str]:
        """Return what else is on record, in order."""
        return [row.body.what.value for row in self.contents.audit.values() if isinstance(row.body, RolloutEvent)]

    def serve(self, *cards: Card, **facts: Any) -> None:
        """Put a rollout on record in which each card serves everybody behind its flags, which are on."""
        for card in cards:
            serving = facts_of_card(card, self.clock.now() - timedelta(hours=1), **facts)
            self.write(
                SlotRollout(
                    slot=card.definition.slot,
                    revision=1,
                    definitions={card.digest: serving},
                    active=card.digest if serving.state is LifecycleState.PROMOTE else None,
                    salt="salt",
                )
            )
            for name in (serving.flag, serving.cohort_flag):
                if name is not None and serving.flags is FlagPair.ON:
                    self.backend.set(name, on=True)

    def mentioned(self) -> frozenset[str]:
        """Return the names of the flags of all definitions on record."""
        facts = [each for rollout in self.contents.rollouts.values() for each in rollout.definitions.values()]
        return frozenset(name for each in facts for name in (each.flag, each.cohort_flag) if name is not None)

    def revise(self, card: Card, **fields: Any) -> None:
        """Change the facts of a card on record."""
        rollout = self.contents.rollouts[card.definition.slot]
        facts = msgspec.structs.replace(rollout.definitions[card.digest], **fields)
        self.write(msgspec.structs.replace(rollout.with_facts(facts), revision=rollout.revision + 1))

    def write(self, rollout: SlotRollout) -> None:
        """Put a rollout on record as it is."""
        self.contents.write(RolloutWrite(slot=rollout.slot, expected_revision=rollout.revision - 1, rollout=rollout))

    def facts(self, card: Card) -> DefinitionFacts:
        """Return what is on record of a card."""
        return self.contents.rollouts[card.definition.slot].definitions[card.digest]


def facts_of_card(card: Card, at: datetime, **fields: Any) -> DefinitionFacts:
    """Return the facts of a card that serves everybody; `fields` replace some."""
    given: dict[str, Any] = {
        "state": LifecycleState.PROMOTE,
        "ramp": 10_000,
        "activated_at": at,
        "flag": f"ai_assistant_subagent_{card.definition.id}",
        "flags": FlagPair.ON,
        "target_recorded": True,
    }
    given.setdefault("confirmed_on", fields.get("flag", given["flag"]) if "flags" not in fields else "")
    return DefinitionFacts(
        digest=Digest(card.digest),
        definition_id=card.definition.id,
        commit=card.commit,
        vertical=Vertical(card.definition.vertical),
        **(given | fields),
    )


def a_kill(card: Card, request_id: str = "kill-1", **fields: Any) -> Kill:
    """Return a request to kill a card's definition."""
    return Kill(definition_id=card.definition.id, request_id=request_id, reason="it says nonsense", **fields)


SHOP = a_card("shop")
REWARDS = a_card("rewards")
