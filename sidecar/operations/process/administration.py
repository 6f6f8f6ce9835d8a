"""Administers one sidecar process: its state, its plugins, a drain, and the verification of its record."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

import msgspec

from sidecar.core.errors import AdmissionRefused, Draining, StoreUnavailable
from sidecar.core.identifiers import Principal, TurnId
from sidecar.operations.ports import Clock
from sidecar.operations.record.checkpoint_ports import AuditChain, CheckpointStoreUnavailable
from sidecar.operations.record.erase_user import EraseUser, ErasureReport
from sidecar.operations.record.verify_log import CheckpointSource, LogVerification, RecordToVerify, RecordUnreadable
from sidecar.operations.rollout.store.ports import Tombstones
from sidecar.operations.rollout.views.snapshot import RolloutViews
from sidecar.operations.turn.bind_turn import BindingState
from sidecar.operations.turn.end_turn_for_operator import EndedTurn, EndTurnForOperator, EndTurnReporter
from sidecar.operations.turn.state.open_turns import Turns
from sidecar.policy.loading import InventoryRow

if TYPE_CHECKING:
    from sidecar.operations.process.traffic import Traffic

DRAIN = "drain"
"""Name of the reason against readiness while an operator drains the sidecar."""
STOP = "stop"
"""Name of the reason against readiness once the process was told to end."""
SOON = timedelta(seconds=10)
"""The time after which a refused operator should try again."""


class ReadinessControl(Protocol):
    """Whether the sidecar accepts new turns. Health follows it."""

    @property
    def against(self) -> Mapping[str, str]:
        """The reasons against readiness, by short name."""

    @property
    def attention(self) -> tuple[str, ...]:
        """What needs attention although turns are taken, one sentence each."""

    def block(self, what: str, why: str) -> None:
        """Add a reason against readiness."""

    def clear(self, what: str) -> None:
        """Remove a reason against readiness."""


class SidecarStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a sidecar.

    Attributes:
        blocks: the reasons against readiness.
        attention: what needs attention although turns are taken.
        calls: RPCs that are being served.
        rollout_version: of the rollouts that binds use.
        pending_kills: kills and ramp-downs in the tombstone file that the rollout store does not have yet.
    """

    version: str
    instance: str
    started_at: datetime
    uptime: timedelta
    blocks: tuple[str, ...]
    attention: tuple[str, ...]
    draining: bool
    open_turns: int
    calls: int
    rollout_version: int
    pending_kills: int


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a verification so far."""

    facts: int
    turns: int
    findings: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    done: bool = False


OpenRecord = Callable[[], AbstractAsyncContextManager[tuple[RecordToVerify, AuditChain, CheckpointSource | None]]]
"""Opens the record to verify it; raises `RecordUnreadable`."""


@dataclass(kw_only=True, eq=False)
class Administer:
    """The operations that administer a sidecar. `started_at` is the time when this object was created.

    Attributes:
        version, instance: of the program, and of this process.
        calls: returns the number of RPCs that are being served.
        report_ended_turn: receives a turn that an operator ends, before it is ended.
        inventory: returns the installed plugins and their use.
        traffic: reads the counters of served calls.
        eraser: returns the operation, always the same object; raises `StoreUnavailable` if the record is in memory.
        report_erasure: receives the operator who erases a user's content, and the reason, before it begins.
    """

    version: str
    instance: str
    clock: Clock
    readiness: ReadinessControl
    binding: BindingState
    turns: Turns
    end_turn_for_operator: EndTurnForOperator
    report_ended_turn: EndTurnReporter
    calls: Callable[[], int]
    views: RolloutViews
    tombstones: Tombstones
    inventory: Callable[[], Sequence[InventoryRow]]
    traffic: "Callable[[], Traffic]"
    open_record: OpenRecord
    eraser: Callable[[], EraseUser]
    report_erasure: Callable[[str, str], None]

    def __post_init__(self) -> None:
        """Note the start time."""
        self._started_at = self.clock.now()
        # For the uptime, which a correction of the wall clock must not change.
        self._began = self.clock.monotonic()
        self._verifying = False

    def plugins(self) -> Sequence[InventoryRow]:
        """Return the installed plugins."""
        return self.inventory()

    def status(self) -> SidecarStatus:
        """Return the state of the sidecar; reads memory only."""
        return SidecarStatus(
            version=self.version,
            instance=self.instance,
            started_at=self._started_at,
            uptime=timedelta(seconds=self.clock.monotonic() - self._began),
            blocks=tuple(self.readiness.against.values()),
            attention=self.readiness.attention,
            draining=self.binding.draining,
            open_turns=self.turns.open,
            calls=self.calls(),
            rollout_version=self.views.current().version,
            # In force here, but not recorded in the rollout store yet.
            pending_kills=len(self.tombstones.pending()),
        )

    def drain(self, by: str, reason: str, *, resume: bool) -> SidecarStatus:
        """Stop accepting new turns, or accept them again; return the new state.

        Args:
            by: the authenticated operator.
            reason: why.
            resume: accept new turns again.

        Raises:
            Draining: the process was told to end, which cannot be undone.
        """
        if resume:
            # The process ends for good; taking turns again would cut them off moments later.
            if STOP in self.readiness.against:
                raise Draining("the sidecar has been told to end; that cannot be taken back", retry_after=SOON)
            # In the reverse order of the begin: a load balancer may send a turn as soon as the sidecar is ready.
            self.binding.draining = False
            self.readiness.clear(DRAIN)
        else:
            # Before the flag: load balancers should stop sending turns no later than the sidecar refuses them.
            self.readiness.block(DRAIN, f"{by} has it drained: {reason}")
            self.binding.draining = True
        return self.status()

    async def end_turn(self, turn_id: TurnId, by: str, reason: str) -> EndedTurn:
        """End a turn that its parent does not end.

        Args:
            turn_id: the turn.
            by: the authenticated operator.
            reason: why.

        Raises:
            UnknownTurn, TurnEnded, StoreUnavailable, RecordConflict.
        """
        # Before the turn is ended: an end whose process dies must still be attributable to its operator.
        self.report_ended_turn(turn_id, by, reason)
        return await self.end_turn_for_operator(turn_id)

    async def erase_user(
        self, principal: Principal, by: str, reason: str, *, preview: bool
    ) -> AsyncGenerator[ErasureReport, None]:
        """Erase the content of a user; yield the progress.

        Args:
            principal: the user.
            by: the authenticated operator.
            reason: why.
            preview: only count the content.

        Raises:
            AdmissionRefused: another erasure runs.
            StoreUnavailable, MemoryUnavailable, RecordConflict: what was reported so far is erased.
        """
        # Before the report: if the record is in memory, this raises, and no erasure has been requested.
        erase = self.eraser()
        if not preview:
            self.report_erasure(by, reason)
        try:
            # Closed also if the operator disconnects: otherwise the lock against a second erasure would stay taken.
            async with aclosing(erase(principal, preview=preview)) as news:
                async for erased in news:
                    yield erased
        except CheckpointStoreUnavailable:
            raise StoreUnavailable("the marker cannot be kept in the second place; see the log") from None

    async def verify(self) -> AsyncGenerator[Verified, None]:
        """Verify the whole record; yield each finding, and at the end that the verification is complete.

        Raises:
            AdmissionRefused: another verification runs.
            StoreUnavailable: the record or its checkpoints cannot be read; also during the iteration.
        """
        if self._verifying:
            raise AdmissionRefused(
                "the record is being verified already; wait for that",
                metadata={"limit": "verifications", "most": "1"},
                retry_after=SOON,
            )
        # Set before the first await, so that two requests cannot both begin.
        self._verifying = True
        try:
            async with self.open_record() as (record, audit, place):
                verification = LogVerification(record, place, lambda _: None, audit)
                looked = verification.looked
                async for finding in verification.findings():
                    text = f"{finding.kind}: {finding.text}"
                    # One by one: a damaged record may have millions of findings.
                    yield Verified(facts=looked.facts, turns=looked.turns, findings=(text,))
                # Only the last message says `done`. A client that did not get it knows that the verification broke off.
                notices = tuple(verification.notices())
                yield Verified(facts=looked.facts, turns=looked.turns, notices=notices, done=True)
        except (RecordUnreadable, OSError):
            raise StoreUnavailable("the record, or the checkpoints beside it, cannot be read; see the log") from None
        finally:
            self._verifying = False
