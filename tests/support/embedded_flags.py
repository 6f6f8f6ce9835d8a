"""Replicas over one store whose flags are embedded in it, with operators who switch them by hand.

bench = EmbeddedReplicas()
bench.serve(SHOP)
replica = await bench.start("a")
answer = await replica.switch_flag(a_pause(SHOP), "ada")
"""

from dataclasses import dataclass, field
from typing import Any, cast

from sidecar.adapters.flags_embedded import EmbeddedFlags, EmbeddedFlagWriter
from sidecar.adapters.rollout_memory import MemoryRollouts, RolloutsInMemory
from sidecar.adapters.tombstones import TombstonesInMemory
from sidecar.core.definitions.cards.card import Card
from sidecar.core.flag_states import FlagRoutes
from sidecar.core.identifiers import InstanceId
from sidecar.core.rollout.events import RolloutEvent, TransitionEvent
from sidecar.core.rollout.facts import DefinitionFacts, FlagPair, SlotRollout
from sidecar.core.rollout.manual_flags import FlagKind
from sidecar.core.rollout.states import LifecycleState
from sidecar.operations.flag_snapshot import FlagSnapshotKeeper, FlagTiming
from sidecar.operations.rollout.flags.flag_switch import ManualFlagSwitch
from sidecar.operations.rollout.requests import StepAnswer, SwitchFlag, SwitchFlagOff, SwitchFlagOn
from sidecar.operations.rollout.steps.step_flags import FlagSwitching
from sidecar.operations.rollout.steps.take_step import ExecuteStep
from sidecar.operations.rollout.stops.assembly import Stops, stops
from sidecar.operations.rollout.stops.local_stop import ApplyStopLocally
from sidecar.operations.rollout.store.ports import RolloutWrite, StoredFlag
from sidecar.operations.rollout.stored_answers import AuditContext
from sidecar.operations.rollout.views.snapshot import RolloutViews
from tests.support.harness import KeepingRecorder
from tests.support.plugin_calls import plugin_calls
from tests.support.stopping import BEGIN, HandClock, facts_of_card


@dataclass(frozen=True)
class EmbeddedReplica:
    """One sidecar, as far as flags are concerned."""

    store: MemoryRollouts
    views: RolloutViews
    snapshots: FlagSnapshotKeeper
    stops: Stops
    take: ExecuteStep

    async def switch_flag(self, asked: SwitchFlag, actor: str) -> StepAnswer:
        """Switch a flag, as the process does."""
        return await self.views.shown(await self.take(asked, actor))

    async def look(self) -> None:
        """Let every loop look once."""
        await self.views.look()
        await self.snapshots.refresh_all()
        await self.stops.edges.look()
        await self.views.look()


@dataclass
class EmbeddedReplicas:
    """The store that they share."""

    contents: RolloutsInMemory = field(default_factory=RolloutsInMemory)
    clock: HandClock = field(default_factory=HandClock)

    async def start(self, name: str = "a") -> EmbeddedReplica:
        """Start a replica; it has looked twice, so that a confirmation is of what it knows."""
        store = MemoryRollouts(self.clock, self.contents, InstanceId(name))
        tombstones, recorder = TombstonesInMemory(), cast("Any", KeepingRecorder())
        views = RolloutViews(store, tombstones, self.clock, recorder)
        snapshots = FlagSnapshotKeeper(
            {"embedded": EmbeddedFlags(store)},
            FlagRoutes("embedded"),
            self.clock,
            FlagTiming(),
            lambda change: None,
            plugin_calls(),
        )
        writer = EmbeddedFlagWriter(store, self.clock)
        take = ExecuteStep(
            store=store,
            clock=self.clock,
            audit_context=lambda: AuditContext("5", ()),
            proofs=cast("Any", None),
            policies=cast("Any", None),
            gates=cast("Any", None),
            flags=FlagSwitching(
                writer_of=lambda vertical: writer, snapshot=snapshots.current, shown=lambda: views.current().slots
            ),
            by_hand=ManualFlagSwitch(
                writer_of=lambda vertical: writer,
                flags=snapshots.current,
                killed=tombstones.all,
                recorder=recorder,
            ),
            decommissioning=cast("Any", None),
        )
        first = ApplyStopLocally(store=store, tombstones=tombstones, views=views, clock=self.clock, recorder=recorder)
        made = stops(first, take, lambda digest: None)
        snapshots.add_observer(made.edges.observe)
        views.before_showing(lambda _: snapshots.refresh(["embedded"]))
        replica = EmbeddedReplica(store, views, snapshots, made, take)
        await replica.look()
        await replica.look()
        return replica

    def serve(self, *cards: Card, slot: str = "", **facts: Any) -> None:
        """Put definitions on record, each in its slot, or all in `slot` with the last one active; flags as they say."""
        for card in cards:
            serving = facts_of_card(card, BEGIN, **facts)
            name = slot or card.definition.slot
            stored = self.contents.rollouts.get(cast("Any", name))
            before = stored or SlotRollout(slot=cast("Any", name), salt="salt")
            promoted = serving.state is LifecycleState.PROMOTE
            after = SlotRollout(
                slot=before.slot,
                revision=before.revision + 1,
                definitions={**before.definitions, serving.digest: serving},
                active=serving.digest if promoted and serving.activated_at else before.active,
                salt="salt",
            )
            self.contents.write(RolloutWrite(slot=after.slot, expected_revision=before.revision, rollout=after))
            for flag in filter(None, (serving.flag, serving.cohort_flag)):
                if serving.flags in {FlagPair.CREATED, FlagPair.ON}:
                    self.put(flag, on=serving.flags is FlagPair.ON)

    def put(self, name: str, *, on: bool) -> None:
        """Have a flag in the store, as the ramp leaves it; one that is as wanted stays."""
        stored = self.contents.flags.get(name)
        if stored is None or stored.on != on:
            version = stored.revision if stored else 0
            self.contents.set_flag(StoredFlag(name, on, version + 1, BEGIN, "the ramp"), version)

    def facts(self, card: Card) -> DefinitionFacts:
        """Return what is on record of a card."""
        rollouts = self.contents.rollouts.values()
        return next(each.definitions[card.digest] for each in rollouts if card.digest in each.definitions)

    def transitions(self) -> list[TransitionEvent]:
        """Return the lifecycle events on record."""
        return [row.body for row in self.contents.audit.values() if isinstance(row.body, TransitionEvent)]

    def happened(self) -> list[RolloutEvent]:
        """Return what else is on record, in order."""
        return [row.body for row in self.contents.audit.values() if isinstance(row.body, RolloutEvent)]


def off(card: Card, flag: FlagKind = FlagKind.COHORT, request_id: str = "off-1", **fields: Any) -> SwitchFlagOff:
    """Return a request to switch a flag off."""
    given: dict[str, Any] = {"reason": "it talks too much", "definition_id": card.definition.id} | fields
    return SwitchFlagOff(request_id=request_id, flag=flag, **given)


def on(card: Card, flag: FlagKind = FlagKind.COHORT, request_id: str = "on-1", **fields: Any) -> SwitchFlagOn:
    """Return a request to switch a flag on."""
    given: dict[str, Any] = {"reason": "it is mended", "definition_id": card.definition.id} | fields
    return SwitchFlagOn(request_id=request_id, flag=flag, **given)
