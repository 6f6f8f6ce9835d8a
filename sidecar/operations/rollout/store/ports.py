"""What the rollout needs of a store. Every method raises `StoreUnavailable` if it fails or cannot be confirmed.

Every database must keep these rules (one test suite runs against each):

1. A rollout is written whole or not at all; `write` with an outdated revision raises `RevisionConflict`.
2. The parts of a change (audit rows, the answer to its request, the rollout) are written in one transaction.
3. A transition event is stored once for each definition digest and target state, whichever sidecar writes it.
4. An answer is stored under its `request_id`; another fingerprint or asker is rejected with `RequestIdReused`.
5. Audit rows are never changed; they are removed only by retention, after 90 days or more, under a signed marker.
6. `version` grows with every change of a rollout, a flag or a stored definition; replicas poll it every second.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum, unique
from hashlib import sha256
from typing import Protocol

import msgspec

from sidecar.core.identifiers import Commit, DefinitionId, Digest, Slot
from sidecar.core.rollout.definition_changes import MajorChange, PendingPromotion
from sidecar.core.rollout.events import RolloutEvent, TransitionEvent
from sidecar.core.rollout.facts import SlotRollout
from sidecar.operations.rollout.store.audit_marker import AuditMarker
from sidecar.operations.rollout.store.replicas import NOTHING_PINNED, PinnedTurnCount, Replica


class StoredAnswer(msgspec.Struct, frozen=True):
    """What a request was answered with, refused and held ones included.

    Attributes:
        fingerprint, asker: of the request: what it holds, and who asked (`answers.asker_of`).
        kind, answer_json: `done` and the answer, or the reason of the refusal and its message.
    """

    request_id: str
    fingerprint: str
    kind: str
    answer_json: str
    at: datetime
    asker: str


class RolloutWrite(msgspec.Struct, frozen=True, kw_only=True):
    """One transaction.

    Attributes:
        rollout: as it is to be; its revision is one more than `expected_revision`. None: only what is written of it.
    """

    slot: Slot
    expected_revision: int
    rollout: SlotRollout | None = None
    transitions: tuple[TransitionEvent, ...] = ()
    events: tuple[RolloutEvent, ...] = ()
    answer: StoredAnswer | None = None


class KeptDefinition(msgspec.Struct, frozen=True):
    """A definition as it was loaded: enough to serve it after the configuration has changed."""

    digest: Digest
    definition_id: DefinitionId
    slot: Slot
    commit: Commit
    card_json: str
    first_seen_at: datetime


class StoredFlag(msgspec.Struct, frozen=True):
    """One flag of the embedded backend."""

    name: str
    on: bool
    revision: int
    changed_at: datetime
    changed_by: str


class AuditRow(msgspec.Struct, frozen=True):
    """One audit row.

    Attributes:
        number: grows with each row of a slot; order of reading.
        effective_at: when a transition first took effect at a bind; None: not yet, or no transition.
        exported: it has been handed to every audit sink.
    """

    number: int
    slot: Slot
    body: TransitionEvent | RolloutEvent
    effective_at: datetime | None
    exported: bool


class AuditQuery(msgspec.Struct, frozen=True):
    """Which audit rows, oldest first."""

    slot: Slot | None = None
    definition_id: DefinitionId | None = None
    after: int = 0
    since: datetime | None = None
    limit: int = 200


@unique
class StopKind(StrEnum):
    """What a replica may do by itself at once, before it is on record."""

    KILL = "kill"
    """Serves no user, permanently."""
    RAMP_DOWN = "ramp_down"
    """Served as at 0 %, until it is on record."""


class StopKey(msgspec.Struct, frozen=True):
    """What a stop is known by: a kill by its definition; of ramp-downs each request is one, as each is answered."""

    kind: StopKind
    digest: Digest
    of: str  # the digest of the request; empty for a kill


class LocalStop(msgspec.Struct, frozen=True, kw_only=True):
    """A stop that was taken here.

    Attributes:
        definition_id, slot: whose; for a definition that was revised before the stop could be put on record.
        at: when it was taken; the record dates a kill so, and a ramp-down by the moment of the write.
        by: the authenticated subject.
        request_json: what was asked, as JSON of `requests.Kill` or `requests.RampDown`.
    """

    kind: StopKind
    digest: Digest
    definition_id: DefinitionId
    slot: Slot
    at: datetime
    by: str
    request_json: str

    @property
    def key(self) -> StopKey:
        """What it is known by."""
        of = "" if self.kind is StopKind.KILL else sha256(self.request_json.encode()).hexdigest()
        return StopKey(self.kind, self.digest, of)


class Tombstones(Protocol):
    """Stops as this process knows them, kept in a file of its own: they need neither database nor backend.

    A kill counts for ever; a ramp-down until it is on record, since the record shows it from then on.
    """

    async def add(self, stop: LocalStop) -> None:
        """Let a stop count in memory before anything is waited for, then keep it durably; one that is there stays.

        Raises:
            OSError: it cannot be kept: it holds as long as this process does, and does not survive a restart.
        """
        ...

    def all(self) -> frozenset[Digest]:
        """Return every definition that was killed here; memory only, the same object until there is another."""
        ...

    def ramped_down(self) -> frozenset[Digest]:
        """Return every definition that counts as being at 0 % here; like `all`."""
        ...

    def pending(self) -> Sequence[LocalStop]:
        """Return stops that are not on record yet, oldest first."""
        ...

    def pending_again(self, killed: frozenset[Digest]) -> None:
        """Let kills be pending that were on record, or refused there; memory only: after a start it is found again."""
        ...

    async def recorded(self, stop: LocalStop) -> None:
        """Note that a stop is on record, or never will be. Raises `OSError`: it is tried again, and is there then."""
        ...


class RolloutRecorder(Protocol):
    """Where the rollout reports what happened, for metrics and logs. Never raises, never waits."""

    def transitioned(self, event: TransitionEvent) -> None:
        """Count and log a transition that first took effect. Source: PF1-OBS-1."""
        ...

    def gate_failed(self, definition_id: str, gate: str) -> None:
        """Count a gate's no; an outage is none. Source: PF1-OBS-2, TN-78."""
        ...

    def definitions_seen(
        self, version: str, waiting: Sequence[PendingPromotion], changed: Sequence[MajorChange]
    ) -> None:
        """Log that all definitions of configuration `version` are on record and served as the record says.

        The definitions in `waiting` are listed, but serve no user until an operator promotes them. Of those in
        `changed` the recorded content serves until then.
        """
        ...

    def known(self, definition_id: str) -> None:
        """Have the counters of a definition there at 0, so that its first kill is a rise. Called often."""
        ...

    def kill_switch_fired(self, definition_id: str) -> None:
        """Count a kill. Source: PF1-OBS-3."""
        ...

    def rolled_back(self, definition_id: str, seconds: float) -> None:
        """Note how long a rollback took, from the request to the bind that shows it. Source: PF1-OBS-4."""
        ...

    def anomaly(self, kind: str, detail: str) -> None:
        """Log and count something that should not happen."""
        ...


class RolloutStore(Protocol):
    """Keeps rollouts, audit, definitions and embedded flags."""

    async def version(self) -> int:
        """Return the newest version; a read of one row."""
        ...

    def on_change(self, tell: Callable[[], None]) -> None:
        """Have `tell` called when something may have changed: a hint, never the only way to learn of it."""
        ...

    async def rollouts(self) -> Sequence[SlotRollout]:
        """Return all rollouts, by slot."""
        ...

    async def rollout(self, slot: Slot) -> SlotRollout | None:
        """Return one rollout."""
        ...

    async def write(self, change: RolloutWrite) -> None:
        """Write one change. Raises `RevisionConflict`, `RequestIdReused`; see the rules."""
        ...

    async def answer(self, request_id: str) -> StoredAnswer | None:
        """Return what a request was answered with."""
        ...

    async def audit(self, query: AuditQuery) -> Sequence[AuditRow]:
        """Return audit rows, oldest first."""
        ...

    async def audit_markers(self) -> tuple[AuditMarker, ...]:
        """Return what stays of the rows that retention removed, oldest first."""
        ...

    async def became_effective(self, event_ids: Sequence[str], at: datetime) -> Sequence[str]:
        """Note that transitions took effect at a bind; returns those that were not noted before."""
        ...

    async def unexported(self, limit: int) -> Sequence[AuditRow]:
        """Return audit rows that have not been handed to every sink, oldest first; not yet effective ones included."""
        ...

    async def exported(self, rows: Sequence[AuditRow]) -> None:
        """Note that rows have been handed on."""
        ...

    async def keep_definition(self, definition: KeptDefinition) -> None:
        """Keep a definition by digest; one that is kept already is left as it is."""
        ...

    async def definition(self, digest: Digest) -> KeptDefinition | None:
        """Return a kept definition."""
        ...

    async def flags(self) -> Sequence[StoredFlag]:
        """Return the flags of the embedded backend, by name."""
        ...

    async def set_flag(self, name: str, on: bool, expected_revision: int, by: str, at: datetime) -> StoredFlag:
        """Set, or with `expected_revision` 0 create, a flag. Raises `RevisionConflict`."""
        ...

    async def show(self, version: int, at: datetime, pinned: PinnedTurnCount = NOTHING_PINNED) -> None:
        """Say which version the binds here show, and what is pinned; that may wait while the version is the same."""
        ...

    async def replicas(self) -> Sequence[Replica]:
        """Return the sidecars that said so lately."""
        ...

    async def elsewhere(self, within: timedelta) -> Sequence[Replica]:
        """Return what the other sidecars said last, dead ones too, if that is not longer ago than `within`."""
        ...
