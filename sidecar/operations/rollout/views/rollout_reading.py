"""Reads the state of rollouts: the record, the flags, the bound turns, and drift among them.

Operators see the readings as lists and details. The sources may contradict each other for a moment, so a reading shows
the state of each source instead of one merged state.

Source: PF1-D-2, PF1-D-32, PF1-D-63, TN-71.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Protocol

import msgspec

from sidecar.core.definitions.cards.card import Card
from sidecar.core.errors import StoreUnavailable, UnknownDefinition
from sidecar.core.flag_states import FlagSnapshot, FlagValue
from sidecar.core.identifiers import Digest
from sidecar.core.rollout.drift import drifts_of
from sidecar.core.rollout.facts import DefinitionFacts, SlotRollout
from sidecar.operations.ports import Clock, Definitions
from sidecar.operations.rollout.audit.audit_log import LastGateVerdicts, LastVerdict
from sidecar.operations.rollout.store.ports import RolloutStore
from sidecar.operations.rollout.store.replicas import Replica
from sidecar.operations.rollout.views.pinned_turns import PinnedTurns
from sidecar.operations.rollout.views.snapshot import RolloutViews


class ReadsFlagBackends(Protocol):
    """The flags of all backends, in memory."""

    def current(self) -> FlagSnapshot:
        """Return the present snapshot."""
        ...

    def ages(self) -> Mapping[str, timedelta | None]:
        """Return the age of the last contact with each backend; None: there was none."""
        ...


class DefinitionReading(msgspec.Struct, frozen=True, kw_only=True):
    """The present state of one definition.

    Attributes:
        flags: (name, value) of kill and cohort flag; empty if it names none.
        backend: the backend of these flags.
        said: the last verdicts of gates; None: no gate was called.
        pinned: open turns of all replicas that are bound to it.
        configured: the configuration has this digest.
        overdue: its decommission has exceeded its window.
    """

    facts: DefinitionFacts
    active: bool
    flags: tuple[tuple[str, FlagValue], ...]
    backend: str
    said: LastGateVerdicts | None
    pinned: int
    configured: bool
    deprecated: bool
    overdue: bool
    drifts: tuple[str, ...]


class SlotReading(msgspec.Struct, frozen=True):
    """The present state of one slot."""

    rollout: SlotRollout
    definitions: tuple[DefinitionReading, ...]


class BackendReading(msgspec.Struct, frozen=True):
    """The age of a flag backend's values; `fresh`: binds may rely on them."""

    name: str
    fresh: bool
    age: timedelta | None


class RolloutsReading(msgspec.Struct, frozen=True):
    """The present state of all slots.

    Attributes:
        version: the version of the rollouts that this replica uses at `BindTurn`.
        replica_view: the store does not answer, and this is the state that this replica uses at `BindTurn`.
    """

    slots: tuple[SlotReading, ...]
    backends: tuple[BackendReading, ...]
    version: int
    replica_view: bool = False


async def find_rollout(store: RolloutStore, name: str) -> SlotRollout:
    """Return the rollout of a slot, or the rollout that has a definition with that id.

    Raises:
        UnknownDefinition: the name is unknown.
        StoreUnavailable: the store did not answer.
    """
    rollouts = await store.rollouts()
    # All slots before any id: a name that is both must always mean the slot.
    for rollout in rollouts:
        if rollout.slot == name:
            return rollout
    for rollout in rollouts:
        if any(facts.definition_id == name for facts in rollout.definitions.values()):
            return rollout
    raise UnknownDefinition(f"no rollout is of {name[:60]!r}; `sidecar subagent list` shows all")


class ReadRollouts(msgspec.Struct, frozen=True, kw_only=True):
    """The reading operations."""

    store: RolloutStore
    views: RolloutViews
    definitions: Definitions
    flags: ReadsFlagBackends
    pinned: PinnedTurns
    clock: Clock
    last_verdict: LastVerdict

    async def list(self) -> RolloutsReading:
        """Return all slots. Raises `StoreUnavailable`."""
        rollouts = await self.store.rollouts()
        # Second: otherwise a turn that is bound between the two reads would be missing, and the list could show a
        # definition that is in use with 0 turns.
        pinned = await self.pinned.count()
        await self.last_verdict.look()  # reads the new audit rows, for all definitions at once
        return RolloutsReading(
            tuple(self._slot(rollout, pinned) for rollout in rollouts),
            self._backends(),
            self.views.current().version,
        )

    async def list_or_shown(self) -> RolloutsReading:
        """Return all slots; while the store is unavailable, as `BindTurn` at this replica uses them.

        Raises:
            StoreUnavailable: the store is unavailable, and nothing was read from it yet.
        """
        try:
            return await self.list()
        except StoreUnavailable:
            shown = self.views.shown_here()
            # Before the first read of the store, the view is empty because nothing is known, not because there are no
            # rollouts.
            if shown.version < 0:
                raise
        # Only the turns of this replica: those of other replicas are in the store.
        pinned = self.pinned.bound_here().turns
        slots = tuple(self._slot(shown.slots[slot], pinned) for slot in sorted(shown.slots))
        return RolloutsReading(slots, self._backends(), shown.version, replica_view=True)

    async def get(self, name: str) -> SlotReading:
        """Return one slot, by its name or by a definition's id. Raises `UnknownDefinition`, `StoreUnavailable`."""
        rollout = await find_rollout(self.store, name)
        await self.last_verdict.look()
        return self._slot(rollout, await self.pinned.count())

    async def replicas(self) -> tuple[Sequence[Replica], int]:
        """Return the sidecars that reported recently, and the newest version. Raises `StoreUnavailable`."""
        return await self.store.replicas(), await self.store.version()

    def _backends(self) -> tuple[BackendReading, ...]:
        stale, ages = self.flags.current().stale_backends, self.flags.ages()
        return tuple(BackendReading(name, name not in stale, ages[name]) for name in sorted(ages))

    def _slot(self, rollout: SlotRollout, pinned: Mapping[Digest, int]) -> SlotReading:
        cards = current_cards(self.definitions)
        readings = [self._definition(rollout, facts, cards, pinned) for facts in rollout.definitions.values()]
        return SlotReading(rollout, tuple(readings))

    def _definition(
        self, rollout: SlotRollout, facts: DefinitionFacts, cards: Mapping[Digest, Card], pinned: Mapping[Digest, int]
    ) -> DefinitionReading:
        # One snapshot for values and drift, so that they cannot contradict each other.
        flags = self.flags.current()
        configured = facts.digest in cards
        deprecated = configured and cards[facts.digest].definition.deprecated
        return DefinitionReading(
            facts=facts,
            active=rollout.active == facts.digest,
            flags=flag_values(facts, flags),
            backend=flags.routes.backend_of(facts.vertical),
            # From memory: the caller has called `look`.
            said=self.last_verdict.of(facts.digest),
            pinned=pinned.get(facts.digest, 0),
            configured=configured,
            deprecated=deprecated,
            overdue=facts.decommission is not None and facts.decommission.overdue(self.clock.now()),
            drifts=tuple(drifts_of(rollout, facts, flags, configured=configured, deprecated=deprecated)),
        )


def current_cards(definitions: Definitions) -> Mapping[Digest, Card]:
    """Return the cards of the configuration as last loaded, by digest."""
    catalogue = definitions.current()
    # By digest: an entry whose content changed is another card, even under the same id.
    return {card.digest: card for card in catalogue.cards.values()} if catalogue else {}


def flag_values(facts: DefinitionFacts, flags: FlagSnapshot) -> tuple[tuple[str, FlagValue], ...]:
    """Return the two flags of a definition with their known values."""
    names = [name for name in (facts.flag, facts.cohort_flag) if name is not None]
    return tuple((name, flags.value(name, facts.vertical)) for name in names)
