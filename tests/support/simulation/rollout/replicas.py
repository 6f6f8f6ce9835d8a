"""The sidecars of a run: the real rollout, the real binding, the real loops, started and killed as processes."""

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any, Final

from sidecar.adapters.flags_embedded import EmbeddedFlags, EmbeddedFlagWriter
from sidecar.core.binding.bind import BindingRules
from sidecar.core.definitions.cards.card import Card, Catalogue
from sidecar.core.definitions.resolve import LoadedCatalogue
from sidecar.core.flag_states import FlagRoutes
from sidecar.core.identifiers import Digest, EpisodeId, InstanceId, Principal, TurnId
from sidecar.operations.flag_snapshot import FlagSnapshotKeeper
from sidecar.operations.process.rollout_assembly import RolloutOperations, RolloutPorts, assemble_rollout
from sidecar.operations.requests import BindTurnRequest, TurnSource
from sidecar.operations.rollout.audit.export import AuditExport
from sidecar.operations.rollout.flags.external_flags import ExternalFlags
from sidecar.operations.rollout.steps.gate_checks import GateRules
from sidecar.operations.rollout.views.kept_definitions import DefinitionCache
from sidecar.operations.rules import DispatchRules
from sidecar.operations.turn.bind_turn import BindingState, BindTurn
from sidecar.operations.turn.state.open_turns import Turn, Turns
from sidecar.policy.protocols import FlagWriter
from tests.support.plugin_calls import plugin_calls
from tests.support.simulation.ports import CountedIds, JumpingClock
from tests.support.simulation.record.processes import Process, ProcessLoop, State
from tests.support.simulation.rollout import cards
from tests.support.simulation.rollout.flags import (
    TIMING,
    FlagService,
    FlagsInStore,
    FlagsOverTheNetwork,
    FlagWriterOverTheNetwork,
)
from tests.support.simulation.rollout.journal import ConfigLoaded, Journal, Listed, Lived
from tests.support.simulation.rollout.outside import (
    GATE_SECONDS,
    CountingRecorder,
    GateService,
    GatesOverTheNetwork,
    NoEpisodes,
    OpenTurn,
    RecordOverTheNetwork,
    SinkOverTheNetwork,
    StepPolicy,
    TombstoneDisk,
    TombstonesOnDisk,
)
from tests.support.simulation.rollout.schedule import RolloutSchedule
from tests.support.simulation.rollout.store import FaultyRollouts, WatchedContents, Weather
from tests.support.simulation.world import KEYS, VOCABULARY

PLACES: Final = 2
RULES: Final = DispatchRules(binding=BindingRules(4, 4), vocabulary=VOCABULARY)


class Configured:
    """The configuration as one process has loaded it, with the cards of every state that it has seen."""

    def __init__(self, variants: cards.Variants) -> None:
        """Load one."""
        self.variants = variants
        self._cards: dict[Digest, Card] = {}
        self.load(variants)

    def load(self, variants: cards.Variants) -> None:
        """Load another one."""
        self.variants = variants
        self._catalogue = cards.catalogue(variants)
        self._cards |= {each.digest: each for each in self._catalogue.cards.values()}

    def current(self) -> Catalogue | None:
        """Return it."""
        return self._catalogue

    async def validated(self) -> LoadedCatalogue:
        """Return it as it is now, without problems."""
        return LoadedCatalogue(self._catalogue, (), {})

    def card_by_digest(self, digest: Digest) -> Card | None:
        """Return a card of it, or of an earlier state."""
        return self._cards.get(digest)


@dataclass(slots=True)
class Around:
    """What all processes share, and what outlives them."""

    loop: ProcessLoop
    schedule: RolloutSchedule
    journal: Journal
    counted: Counter[str]
    clock: JumpingClock
    contents: WatchedContents
    gates: GateService
    flags: FlagService | FlagsInStore
    disks: tuple[TombstoneDisk, ...] = field(default_factory=lambda: tuple(TombstoneDisk() for _ in range(PLACES)))
    called: dict[str, OpenTurn] = field(default_factory=dict)
    healthy: bool = False


class Replica:
    """One process. `began`: it has looked once at everything, and binds turns."""

    def __init__(self, around: Around, place: int, number: int, variants: cards.Variants) -> None:
        """Build everything; nothing happens before `begin`."""
        self.life = f"s{place}-{number}"
        self.place = place
        self.process = Process(around.loop, self.life)
        self.began = asyncio.Event()
        self._loops: list[asyncio.Task[None]] = []
        schedule = around.schedule
        self.weather = Weather(
            loop=around.loop,
            journal=around.journal,
            counted=around.counted,
            faults=schedule.faults,
            outages=schedule.outages,
            place=place,
            life=self.life,
            chance=Random(f"weather {schedule.name} {self.life}"),
            healthy=lambda: around.healthy,
        )
        self._around = around
        self.loaded = Configured(variants)
        around.journal.add(ConfigLoaded(self.life, variants))
        self.store = FaultyRollouts(around.clock, around.contents, self.weather, self.process)
        self.recorder = CountingRecorder(around.journal, self.life, around.clock)
        self.flags = self._flags()
        disk = around.disks[place]
        self.tombstones = TombstonesOnDisk(disk, self.weather)
        around.journal.add(Lived(self.life, place, began=True, held=disk.held()))
        self.operations = self._rollout()
        self.definitions = DefinitionCache(self.loaded, self.operations.definition_watch, self.store, self.recorder)
        self.turns = Turns(around.clock, self.definitions, KEYS, RULES)
        facts: Any = NoEpisodes()
        binding = BindingState(KEYS, facts, facts, rollouts=self.operations.stops.rollouts)
        self.bind_turn = BindTurn(RULES, around.clock, self.definitions, self.flags, self.turns, binding)
        self.export = AuditExport(
            self.store, {"sink": SinkOverTheNetwork(self.weather)}, InstanceId(self.life), around.clock, self.recorder
        )

    @property
    def ready(self) -> bool:
        """Say whether it has begun."""
        return self.began.is_set()

    @property
    def alive(self) -> bool:
        """Say whether the process has not been killed."""
        return self.process.state is not State.DEAD

    async def begin(self) -> None:
        """Do what a process does before it binds, as `open_rollout` does; then keep the loops."""
        operations, start = self.operations, self.process.start
        self.flags.add_observer(operations.stops.edges.observe)
        await self.flags.refresh_all()
        await operations.views.look()
        await operations.definition_watch.look()
        await operations.views.look()
        for run in (*operations.loops, *(run for _, run in self.export.loops), self.flags.run):
            self._loops.append(start(run(), f"{type(getattr(run, '__self__', run)).__name__} of {self.life}"))
        self.began.set()

    async def rest(self) -> None:
        """End the loops, so that `look` can be called in their place: two at once there never are."""
        for each in self._loops:
            each.cancel()
        for each in self._loops:
            with suppress(asyncio.CancelledError):
                await each

    async def look(self) -> None:
        """Let every loop look once, in the order in which one finds what another one needs."""
        await self.flags.refresh_all()
        await self.operations.views.look()
        await self.operations.stops.edges.look()
        await self.operations.stops.record.look()
        await self.operations.definition_watch.look()
        await self.operations.views.look()
        await self.operations.stops.effective.look()
        await self.operations.watch_decommissions.look()

    async def list_decommissions(self) -> None:
        """Ask for what has not ended; the answer goes into the journal."""
        shows = self.operations.views.current().version
        found = await self.operations.decommissions()
        rows = tuple((str(each.facts.digest), each.overdue, bool(each.left)) for each in found)
        self._around.journal.add(Listed(self.life, shows, self._around.contents.wall, rows))

    def turn_of(self, token: str) -> Turn:
        """Return a turn by its token. Raises what `Turns` does."""
        return self.turns.of_token(token)

    def _flags(self) -> FlagSnapshotKeeper:
        kept = self._around.flags
        inner = kept if isinstance(kept, FlagService) else EmbeddedFlags(self.store)
        backend = FlagsOverTheNetwork(inner, self.weather)
        return FlagSnapshotKeeper(
            {"flags": backend}, FlagRoutes("flags"), self._around.clock, TIMING, lambda change: None, plugin_calls()
        )

    def _writer(self) -> FlagWriter:
        if self._around.schedule.read_only:
            return ExternalFlags("elsewhere")
        kept = self._around.flags
        inner = kept if isinstance(kept, FlagService) else EmbeddedFlagWriter(self.store, self._around.clock)
        return FlagWriterOverTheNetwork(inner, self.weather)

    def _rollout(self) -> RolloutOperations:
        around, schedule = self._around, self._around.schedule
        gates, writer = GatesOverTheNetwork(around.gates, self.weather), self._writer()
        policy = StepPolicy(schedule.largest_step, schedule.legal_from, self.weather)
        record: Any = RecordOverTheNetwork(around.called, self.weather)
        return assemble_rollout(
            RolloutPorts(
                store=self.store,
                tombstones=self.tombstones,
                clock=around.clock,
                ids=CountedIds(f"{self.life}-"),
                recorder=self.recorder,
                definitions=self.loaded,
                flags=self.flags,
                record=record,
                validate=self.loaded.validated,
                turns=lambda: self.turns,
                gate_for=lambda vertical, gate: gates,
                policies_of=lambda vertical: (("steps", policy),),
                writer_of=lambda vertical: writer,
                gate_rules=GateRules(timeout=timedelta(seconds=GATE_SECONDS)),
                serve_unflagged_at_once=schedule.at_once,
                decommission_window=timedelta(seconds=schedule.window),
            )
        )


def request_of(turn: str, user: str, arm: str) -> BindTurnRequest:
    """Return the request that binds a turn."""
    return BindTurnRequest(
        turn_id=TurnId(turn),
        episode_id=EpisodeId(turn),
        principal=Principal(user),
        source=TurnSource.CHAT,
        orchestrator_id="concierge",
        experiment_arm=arm,
    )
