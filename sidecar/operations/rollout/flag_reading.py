"""Reads the two flags of each definition of a slot: what binds go by, and what is known of who switched them."""

from collections.abc import Callable
from datetime import datetime

import msgspec

from sidecar.core.binding.flags import FlagValue
from sidecar.core.identifiers import Vertical
from sidecar.core.rollout.facts import DefinitionFacts, SlotRollout
from sidecar.core.rollout.flags_by_hand import Behind, FlagKind, behind
from sidecar.operations.rollout.flag_writes import KeepsFlags
from sidecar.operations.rollout.ports import FlagWriter, RolloutStore, StoredFlag
from sidecar.operations.rollout.reading import BackendReading, ReadsFlagBackends, find_rollout


class FlagReading(msgspec.Struct, frozen=True, kw_only=True):
    """One flag.

    Attributes:
        value: what binds go by.
        version: 0: nobody has created it, or its backend keeps none; as `changed_at` and `changed_by`.
        shared_with: whom else it decides about.
    """

    kind: FlagKind
    name: str
    value: FlagValue
    version: int = 0
    changed_at: datetime | None = None
    changed_by: str = ""
    shared_with: tuple[Behind, ...] = ()


class DefinitionFlagsReading(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of one definition. `writable`: the sidecar can switch them."""

    rollout: SlotRollout
    facts: DefinitionFacts
    flags: tuple[FlagReading, ...]
    backend: BackendReading
    writable: bool


class ReadFlags:
    """The operation behind `GetFlags`.

    Args:
        writer_of: who writes the flags of a vertical.
    """

    def __init__(
        self, store: RolloutStore, flags: ReadsFlagBackends, writer_of: Callable[[Vertical], FlagWriter]
    ) -> None:
        """Join the parts."""
        self._store = store
        self._flags = flags
        self._writer_of = writer_of

    async def __call__(self, name: str) -> tuple[DefinitionFlagsReading, ...]:
        """Return the flags of a slot, or of the slot of a definition. Raises `UnknownSubagent`, `StoreUnavailable`."""
        rollout = await find_rollout(self._store, name)
        return tuple([await self._of(rollout, facts) for facts in rollout.definitions.values()])

    async def _of(self, rollout: SlotRollout, facts: DefinitionFacts) -> DefinitionFlagsReading:
        backend = self._flags.current().routes.backend_of(facts.vertical)
        writer = self._writer_of(facts.vertical)
        kept = writer.kept if isinstance(writer, KeepsFlags) else _kept_elsewhere
        named = ((FlagKind.KILL, facts.flag), (FlagKind.COHORT, facts.cohort_flag))
        return DefinitionFlagsReading(
            rollout=rollout,
            facts=facts,
            flags=tuple([await self._flag(facts, kind, name, await kept(name)) for kind, name in named if name]),
            backend=BackendReading(
                backend,
                backend not in self._flags.current().stale_backends,
                self._flags.ages().get(backend),
            ),
            writable=facts.flag is not None and not writer.edit_for(facts.flag, False),
        )

    async def _flag(self, facts: DefinitionFacts, kind: FlagKind, name: str, kept: StoredFlag | None) -> FlagReading:
        flags = self._flags.current()
        home = flags.routes.backend_of(facts.vertical)
        everybody = behind(
            await self._store.rollouts(), name, lambda vertical: flags.routes.backend_of(vertical) == home
        )
        return FlagReading(
            kind=kind,
            name=name,
            value=flags.value(name, facts.vertical),
            version=kept.revision if kept else 0,
            changed_at=kept.changed_at if kept else None,
            changed_by=kept.changed_by if kept else "",
            shared_with=tuple(each for each in everybody if each.facts.digest != facts.digest),
        )


async def _kept_elsewhere(name: str) -> StoredFlag | None:
    return None
