"""Reads the two flags of each definition of a slot: the values that binds use, and the last switch of each flag.

Only for operators. Binds use the snapshot of flags (`operations/flag_snapshot`) directly.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from sidecar.core.flag_states import FlagValue
from sidecar.core.identifiers import Vertical
from sidecar.core.rollout.facts import DefinitionFacts, SlotRollout
from sidecar.core.rollout.manual_flags import FlaggedDefinition, FlagKind, definitions_using
from sidecar.operations.rollout.store.flag_writes import FlagStore
from sidecar.operations.rollout.store.ports import RolloutStore
from sidecar.operations.rollout.views.rollout_reading import BackendReading, ReadsFlagBackends, find_rollout
from sidecar.policy.protocols import FlagWriter


class FlagReading(msgspec.Struct, frozen=True, kw_only=True):
    """One flag.

    Attributes:
        value: the value that binds use.
        version: number of changes; 0: the flag was never created, or its backend has no versions.
        changed_at, changed_by: the last switch; None and empty in the same two cases.
        shared_with: the other definitions that it gates.
    """

    kind: FlagKind
    name: str
    value: FlagValue
    version: int = 0
    changed_at: datetime | None = None
    changed_by: str = ""
    shared_with: tuple[FlaggedDefinition, ...] = ()


class DefinitionFlagsReading(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of one definition. `writable`: the sidecar can switch them."""

    rollout: SlotRollout
    facts: DefinitionFacts
    flags: tuple[FlagReading, ...]
    backend: BackendReading
    writable: bool


class ReadFlags(msgspec.Struct, frozen=True):
    """The operation behind `GetFlags`.

    Attributes:
        writer_of: the writer of a vertical's flags.
    """

    store: RolloutStore
    flags: ReadsFlagBackends
    writer_of: Callable[[Vertical], FlagWriter]

    async def __call__(self, name: str) -> tuple[DefinitionFlagsReading, ...]:
        """Return the flags of a slot or of a definition's slot. Raises `UnknownDefinition`, `StoreUnavailable`."""
        # All rollouts, because definitions of other slots may share a flag.
        rollout, rollouts = await find_rollout(self.store, name), await self.store.rollouts()
        return tuple([await self._flags_of(rollout, facts, rollouts) for facts in rollout.definitions.values()])

    async def _flags_of(
        self, rollout: SlotRollout, facts: DefinitionFacts, rollouts: Sequence[SlotRollout]
    ) -> DefinitionFlagsReading:
        flags, writer = self.flags.current(), self.writer_of(facts.vertical)
        backend_of = flags.routes.backend_of
        backend, readings = backend_of(facts.vertical), []
        for kind, name in ((FlagKind.KILL, facts.flag), (FlagKind.COHORT, facts.cohort_flag)):
            if name is None:
                continue
            # Other backends have their own history, which the sidecar does not see.
            kept = await writer.kept(name) if isinstance(writer, FlagStore) else None
            # Per backend: two backends may have flags of the same name, which are independent.
            gated = definitions_using(rollouts, name, lambda vertical: backend_of(vertical) == backend)
            readings.append(
                FlagReading(
                    kind=kind,
                    name=name,
                    value=flags.value(name, facts.vertical),
                    version=kept.revision if kept else 0,
                    changed_at=kept.changed_at if kept else None,
                    changed_by=kept.changed_by if kept else "",
                    shared_with=tuple(each for each in gated if each.facts.digest != facts.digest),
                )
            )
        return DefinitionFlagsReading(
            rollout=rollout,
            facts=facts,
            flags=tuple(readings),
            backend=BackendReading(backend, backend not in flags.stale_backends, self.flags.ages().get(backend)),
            # A writer that asks an operator for an edit cannot switch the flag itself.
            writable=facts.flag is not None and not writer.edit_for(facts.flag, False),
        )
