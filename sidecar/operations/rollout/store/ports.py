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
    """The answer to a request, including refusals.

    Attributes:
        fingerprint: of the request's contents.
        asker: the requester, see `stored_answers.requester_of`.
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
        rollout: its new state, with a revision one above `expected_revision`. None: the rollout does not change.
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
    card_json: str  # the card and not the entry: the files that the entry refers to may have changed
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
        number: grows with each row of a slot; the order of reading.
        effective_at: when a transition first took effect at a bind; None: not yet, or not a transition.
        exported: every audit sink has received it.
    """

    number: int
    slot: Slot
    body: TransitionEvent | RolloutEvent
    effective_at: datetime | None
    exported: bool


class AuditQuery(msgspec.Struct, frozen=True):
    """Selects audit rows, oldest first.

    Attributes:
        slot, definition_id: None: any.
        after: only rows with larger numbers.
        since: only rows of this time or later.
        limit: the most rows.
    """

    slot: Slot | None = None
    definition_id: DefinitionId | None = None
    after: int = 0
    since: datetime | None = None
    limit: int = 200


@unique
class StopKind(StrEnum):
    """What a replica may do immediately, before it is recorded."""

    KILL = "kill"
    """The definition serves no user, permanently."""
    RAMP_DOWN = "ramp_down"
    """The definition counts as being at 0 %, until the ramp-down is recorded."""


class StopKey(msgspec.Struct, frozen=True):
    """Identifies a stop: a kill by its definition, a ramp-down by its request, because each request gets an answer."""

    kind: StopKind
    digest: Digest
    of: str  # the digest of the request; empty for a kill


class LocalStop(msgspec.Struct, frozen=True, kw_only=True):
    """A stop that was taken by this process.

    Attributes:
        definition_id, slot: find the definition if a revision changes its digest before the stop is recorded.
        at: when it was taken. The record has this time for a kill, and the time of the write for a ramp-down.
        by: the authenticated operator.
        request_json: the request, as JSON of `requests.Kill` or `requests.RampDown`.
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
        """The identity of the stop."""
        of = "" if self.kind is StopKind.KILL else sha256(self.request_json.encode()).hexdigest()
        return StopKey(self.kind, self.digest, of)


class Tombstones(Protocol):
    """The stops of this process, in a file of its own: they need neither database nor flag backend.

    A kill counts for ever. A ramp-down counts until it is recorded, because the record shows it from then on.
    """

    async def add(self, stop: LocalStop) -> None:
        """Add a stop in memory before any wait, then store it durably. An existing stop is not replaced.

        Raises:
            OSError: the stop cannot be stored: it is in effect while this process runs, and does not survive a restart.
        """

    def all(self) -> frozenset[Digest]:
        """Return every definition that was killed here, from memory; the same object until there is another kill."""

    def ramped_down(self) -> frozenset[Digest]:
        """Return every definition that counts as being at 0 % here; otherwise like `all`."""

    def pending(self) -> Sequence[LocalStop]:
        """Return stops that are not recorded yet, oldest first."""

    def pending_again(self, killed: frozenset[Digest]) -> None:
        """Make kills pending again that were recorded or refused. In memory only: a restart finds them again."""

    async def recorded(self, stop: LocalStop) -> None:
        """Note that a stop is recorded, or refused for good: it is no longer pending.

        Raises `OSError`: the mark is lost and the stop is tried again.
        """


class RolloutRecorder(Protocol):
    """Receives reports about rollouts, for metrics and logs. Never raises, never waits."""

    def transitioned(self, event: TransitionEvent) -> None:
        """Count and log a transition that first took effect. Source: PF1-OBS-1."""

    def gate_failed(self, definition_id: str, gate: str) -> None:
        """Count a `fail` of a gate; an outage does not count. Source: PF1-OBS-2, TN-78."""

    def definitions_seen(self, version: str, waiting: Sequence[PendingPromotion], major: Sequence[MajorChange]) -> None:
        """Log that all definitions of configuration `version` are on record and served as the record says.

        Definitions in `waiting` serve no user until an operator promotes them. Definitions in `major` serve users with
        the recorded content, not with the content of the configuration.
        """

    def known(self, definition_id: str) -> None:
        """Create the counters of a definition with 0, so that its first kill is a rise. Called often."""

    def kill_switch_fired(self, definition_id: str) -> None:
        """Count a kill. Source: PF1-OBS-3."""

    def rolled_back(self, definition_id: str, seconds: float) -> None:
        """Note the time of a rollback, from the request to the bind that shows it. Source: PF1-OBS-4."""

    def anomaly(self, kind: str, detail: str) -> None:
        """Log and count an event that should not happen."""


class RolloutStore(Protocol):
    """Stores rollouts, audit, definitions and embedded flags."""

    async def version(self) -> int:
        """Return the newest version; reads one row."""

    def on_change(self, tell: Callable[[], None]) -> None:
        """Call `tell` when something may have changed. This is a hint: a caller must also poll."""

    async def rollouts(self) -> Sequence[SlotRollout]:
        """Return all rollouts, sorted by slot."""

    async def rollout(self, slot: Slot) -> SlotRollout | None:
        """Return one rollout."""

    async def write(self, change: RolloutWrite) -> None:
        """Write one change. Raises `RevisionConflict`, `RequestIdReused`; see the rules."""

    async def answer(self, request_id: str) -> StoredAnswer | None:
        """Return the stored answer to a request."""

    async def audit(self, query: AuditQuery) -> Sequence[AuditRow]:
        """Return audit rows, oldest first."""

    async def audit_markers(self) -> tuple[AuditMarker, ...]:
        """Return the markers of the rows that retention removed, oldest first."""

    async def became_effective(self, event_ids: Sequence[str], at: datetime) -> Sequence[str]:
        """Note that transitions took effect at a bind; return those that this replica noted, now or earlier."""

    async def unexported(self, limit: int) -> Sequence[AuditRow]:
        """Return audit rows that not every sink has received, oldest first; transitions also before their effect."""

    async def exported(self, rows: Sequence[AuditRow]) -> None:
        """Note that every sink has received these rows."""

    async def keep_definition(self, definition: KeptDefinition) -> None:
        """Store a definition by digest; an existing one is not changed."""

    async def definition(self, digest: Digest) -> KeptDefinition | None:
        """Return a stored definition."""

    async def flags(self) -> Sequence[StoredFlag]:
        """Return the flags of the embedded backend, by name."""

    async def set_flag(self, name: str, on: bool, expected_revision: int, by: str, at: datetime) -> StoredFlag:
        """Set a flag, or create it with `expected_revision` 0. Raises `RevisionConflict`."""

    async def show(self, version: int, at: datetime, pinned: PinnedTurnCount = NOTHING_PINNED) -> None:
        """Report the version that binds here use, and the bound turns.

        May be delayed while the version does not change.
        """

    async def replicas(self) -> Sequence[Replica]:
        """Return the sidecars that reported recently."""

    async def elsewhere(self, within: timedelta) -> Sequence[Replica]:
        """Return the last reports of the other sidecars, including dead ones, if they are not older than `within`."""
