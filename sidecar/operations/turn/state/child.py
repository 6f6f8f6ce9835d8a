"""A child while it is alive here: contract, log, what it used, and what is not durable yet."""

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from datetime import datetime

from sidecar.core.binding.surface import SurfaceTool
from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.executing.contract import Contract
from sidecar.core.executing.events import ChildEvent, ChildLog
from sidecar.core.executing.records import CallSettled, Record
from sidecar.core.identifiers import CallId, ChildId, DispatchId, Principal, Slot, ToolId
from sidecar.operations.requests import Integration
from sidecar.operations.turn.state.ledger import Ledger
from sidecar.operations.turn.state.recorded_frames import ChildFrames
from sidecar.operations.turn.state.trace_context import NO_TRACE, TraceContext


@dataclass(slots=True)
class DataUse:
    """What a child's calls of data services came to.

    Attributes:
        barred: tools whose service may have answered for somebody else; this child does not get to ask them again.
        barred_below: that happened to a child that this one delegated to.
    """

    calls: int = 0
    released: int = 0
    barred: set[ToolId] = field(default_factory=set)
    barred_below: bool = False
    budget_hit: bool = False

    @property
    def barred_anywhere(self) -> bool:
        """Whether an answer may have been for somebody else, here or below."""
        return self.barred_below or bool(self.barred)

    @property
    def forces_degraded(self) -> bool:
        """No data call succeeded, or one was withheld for its principal. Source: DESIGN section 5."""
        return self.barred_anywhere or (self.calls > 0 and self.released == 0)


@dataclass(slots=True)
class Child:
    """One delegated execution.

    Attributes:
        unsaved: records that happened but are not durable yet; they go along with the next append.
        outcome: None while the call runs.
        status_events: reports made, before the policy.
        integrated: the parent took its output.
        verdict: what `CloseChild` closed it with; None otherwise.
        trace: of the attempt that runs.
        frames: what came from outside while it ran, for replays; None if that is not recorded.
        ends_at: of the loop's clock: when the attempt that runs is over at the latest.
        wall_clock_at: of the loop's clock: when the time of all attempts is over; None: no such limit.
        ledger: what it and those below it use; `above` is that of the child that delegates to it.
        restored: it was brought back from the record, where other sidecars may have made attempts.
    """

    child_id: ChildId
    call_id: CallId
    dispatch_id: DispatchId
    step_idx: int
    tool: SurfaceTool
    contract: Contract
    contract_json: str
    principal: Principal
    log: ChildLog
    data: DataUse = field(default_factory=DataUse)
    unsaved: list[Record] = field(default_factory=list)
    outcome: CallOutcome | None = None
    attempts: int = 0
    status_events: int = 0
    started_at: datetime | None = None
    settled_at: datetime | None = None
    close_reason: str = ""
    integrated: bool = False
    verdict: Integration | None = None
    trace: TraceContext = NO_TRACE
    frames: ChildFrames | None = None
    ends_at: float = 0.0
    wall_clock_at: float | None = None
    above: InitVar[Ledger | None] = None
    restored: bool = False

    ledger: Ledger = field(init=False)

    def __post_init__(self, above: Ledger | None) -> None:
        """Open the ledger."""
        self.ledger = Ledger(self.contract.budgets, above)

    @property
    def slot(self) -> Slot:
        """The slot that was asked."""
        return self.tool.slot

    @property
    def has_unsaved_outcome(self) -> bool:
        """Whether its outcome here still has to be written, and stands then whatever is on record of it now."""
        return any(isinstance(record, CallSettled) for record in self.unsaved)

    def take_unsaved(self) -> Sequence[Record]:
        """Return what is to be appended; `saved` forgets it once it is durable."""
        return tuple(self.unsaved)

    def is_ahead_of(self, stored: Sequence[ChildEvent]) -> bool:
        """Say whether the log here is the stored one, or goes on from it."""
        if not stored:
            return True
        unsaved = [record for record in self.unsaved if isinstance(record, ChildEvent)]
        return stored[-1].link in {*(event.previous_link for event in unsaved), self.log.link}

    def saved(self, records: Sequence[Record]) -> None:
        """Forget records that are durable now. Others may have come in meanwhile, and two may save at once."""
        if records and len(records) == len(self.unsaved) and records[-1] is self.unsaved[-1]:
            self.unsaved = []  # the usual case: nothing came in
            return
        durable = {record.record_id for record in records}
        self.unsaved = [record for record in self.unsaved if record.record_id not in durable]
