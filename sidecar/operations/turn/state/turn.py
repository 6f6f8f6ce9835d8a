"""One turn in memory. `live_dispatch.Turn` adds the dispatches, which refer back to it."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Generic, Protocol, TypeVar

from sidecar.core.binding.surface import Surface
from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.definitions.cards.prompt import DynamicContext, suffix_of
from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.dispatching.plan import DispatchPlan
from sidecar.core.errors import SubagentsError, TurnEnded
from sidecar.core.history.compaction import CompactionDue
from sidecar.core.identifiers import CallId, ChildId, Digest, DispatchId, Slot, TurnId
from sidecar.core.journal.entries import Draft
from sidecar.core.journal.facts import CallsSettled
from sidecar.core.journal.heads import progress_of
from sidecar.core.journal.opening.claims import UnnamedClaims, unnamed
from sidecar.operations.first_result import FirstResult
from sidecar.operations.requests import DispatchRequest
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.dispatch_stages import DispatchStage, Ownership
from sidecar.operations.turn.state.ending import EndStage, TurnEnding
from sidecar.operations.turn.state.slot_queues import TurnSlotQueues
from sidecar.operations.turn.state.transitions import IllegalTransition


class Origin(Enum):
    """Where a turn was bound, and how much of it this process knows.

    Attributes:
        BOUND_HERE: this process bound it and knows all of it.
        UNREAD: another process bound it; its record has not been read.
        READING: its record is being read.
        READ: its record has been read.
        UNREADABLE: its record could not be read, and the turn is forgotten.
    """

    BOUND_HERE = auto()
    UNREAD = auto()
    READING = auto()
    READ = auto()
    UNREADABLE = auto()


class DispatchState(Protocol):
    """What a turn needs of its dispatches; see `LiveDispatch`."""

    dispatch_id: DispatchId
    request: DispatchRequest
    plan: DispatchPlan
    stage: DispatchStage
    ownership: Ownership

    def lose(self) -> None:
        """Stop the execution here: another sidecar has taken the dispatch over."""

    def finish_with_turn(self, outcomes: Mapping[CallId, CallOutcome]) -> None:
        """Finish with the recorded outcomes that the end of the turn gave to the calls."""


Dispatch = TypeVar("Dispatch", bound=DispatchState)


@dataclass(slots=True)
class TurnState(Generic[Dispatch]):
    """One open turn, and its dispatches and children.

    Attributes:
        claims, token: as signed at bind.
        compaction_due: whether the history should be compacted, as read at the first bind; repeated binds return it.
        next_step: emission index of the next call.
        reap_at: when the reaper ends the turn, by the monotonic clock.
        uncertain: the record may contain facts that were not confirmed; it must be read before the turn is ended.
        idle_since: the time of the last request or the end of the last work, by the monotonic clock.
        works: number of running pieces of work: dispatches, and the end of the turn.
        overhead: the time of its dispatches during which no sub-agent ran.
        ending: the state of its end.
        claims_recorded: the newest fact with claims has the claims of this turn.
        origin: where it was bound, and how much of it is known here.
        restoring: settles once the record of a turn that was bound elsewhere has been read, or could not be read.
        prompt_suffix: the end of every prompt of the turn.
    """

    claims: SurfaceClaims
    token: str
    surface: Surface
    reap_at: float
    bind_request: object = None  # repeated binds must equal it; None: another process bound the turn
    compaction_due: CompactionDue = CompactionDue.UNKNOWN
    next_step: int = 0
    queues: TurnSlotQueues = field(default_factory=TurnSlotQueues)
    uncertain: bool = False
    overhead: timedelta = timedelta(0)
    idle_since: float = 0.0
    works: int = 0
    ending: TurnEnding = field(default_factory=TurnEnding)
    origin: Origin = Origin.BOUND_HERE
    restoring: FirstResult[SubagentsError | None] = field(default_factory=FirstResult)

    turn_id: TurnId = field(init=False)
    dispatches: Mapping[DispatchId, Dispatch] = field(init=False)
    children: Mapping[ChildId, Child] = field(init=False)
    claims_recorded: bool = field(init=False, default=False)
    prompt_suffix: str = field(init=False)
    _dispatches: dict[DispatchId, Dispatch] = field(init=False, default_factory=dict)
    _children: dict[ChildId, Child] = field(init=False, default_factory=dict)
    spent_elsewhere: int = field(init=False, default=0)
    _unconfirmed: dict[DispatchId, list[Draft]] = field(init=False, default_factory=dict)
    _unnamed: UnnamedClaims | None = field(init=False, default=None)
    _digests: dict[Slot, Digest] | None = field(init=False, default=None)

    @property
    def unnamed_claims(self) -> UnnamedClaims:
        """The claims as facts store them; created at the first use, because most turns call nothing."""
        if self._unnamed is None:
            self._unnamed = unnamed(self.claims)
        return self._unnamed

    @property
    def digests(self) -> Mapping[Slot, Digest]:
        """The digest of each bound definition, by slot."""
        if self._digests is None:
            self._digests = dict(self.claims.tools)
        return self._digests

    def __post_init__(self) -> None:
        """Compute the prompt suffix once: the orchestrator and all sub-agents share it."""
        claims = self.claims
        self.turn_id = claims.turn_id
        self.dispatches, self.children = self._dispatches, self._children
        date = datetime.fromisoformat(claims.date).date()
        self.prompt_suffix = suffix_of(DynamicContext(date, claims.location, claims.principal, claims.locale))

    def children_of(self, dispatch_id: DispatchId) -> list[Child]:
        """Return the children of a dispatch's calls, in emission order, without delegated children."""
        called = (each for each in self.children.values() if each.contract.parent_child_id is None)
        return sorted((each for each in called if each.dispatch_id == dispatch_id), key=lambda each: each.step_idx)

    def accept(self, dispatch: Dispatch) -> None:
        """Add a dispatch that begins here. Each call takes a step, also a dropped one: the record reserves all."""
        if self.ending.stage is not EndStage.OPEN or dispatch.dispatch_id in self.dispatches:
            raise IllegalTransition("accept", self.ending.stage)
        self._dispatches[dispatch.dispatch_id] = dispatch
        self.next_step += len(dispatch.request.calls)

    def bring_back(self, dispatch: Dispatch) -> None:
        """Replace the state of a dispatch by the recorded one."""
        self._dispatches[dispatch.dispatch_id] = dispatch

    def drop(self, dispatch: Dispatch) -> None:
        """Remove a dispatch, unless a restored state has replaced it."""
        if self.dispatches.get(dispatch.dispatch_id) is dispatch:
            del self._dispatches[dispatch.dispatch_id]

    def lose(self, dispatch: Dispatch) -> None:
        """Remove a dispatch that another sidecar has taken over; that sidecar settles the unrecorded calls."""
        dispatch.lose()
        self.drop(dispatch)
        self._unconfirmed.pop(dispatch.dispatch_id, None)

    def take_steps(self, count: int) -> None:
        """Reserve the next emission indexes."""
        self.next_step += count

    def count_steps_from(self, step: int) -> None:
        """Reserve all emission indexes below `step`, because the record uses them."""
        self.next_step = max(self.next_step, step)

    def keep_child(self, child: Child) -> None:
        """Add a recorded child, or replace its state."""
        self._children[child.child_id] = child

    # --- facts that are not confirmed

    @property
    def unrecorded(self) -> bool:
        """Whether facts or events of the turn exist only in this process."""
        return bool(self._unconfirmed) or any(child.waits_for_a_fact for child in self.children.values())

    def in_front(self, dispatch_id: DispatchId) -> Sequence[Draft]:
        """Return the unconfirmed facts of a dispatch; the next append of the dispatch begins with them.

        Facts of a running append are repeated, too: the store decides in order and recognises a draft by its salt.
        """
        return tuple(self._unconfirmed.get(dispatch_id, ()))

    def happened(self, dispatch_id: DispatchId, drafts: Sequence[Draft]) -> None:
        """Keep drafts that are about to be appended, until they are recorded."""
        if drafts:
            self._unconfirmed.setdefault(dispatch_id, []).extend(drafts)

    def recorded(self, dispatch_id: DispatchId, drafts: Sequence[Draft]) -> None:
        """Drop recorded or refused drafts, but not those that a concurrent append has added since."""
        unconfirmed = self._unconfirmed.get(dispatch_id)
        if unconfirmed is None:
            return  # dropped during the append: the dispatch was lost, or a read found the drafts recorded
        if len(drafts) >= len(unconfirmed) and drafts[-1] is unconfirmed[-1]:
            del self._unconfirmed[dispatch_id]  # the usual case: no draft was added during the append
        else:
            self._forget({each.salt for each in drafts})

    def found_on_record(self, salts: Set[bytes]) -> None:
        """Drop the drafts with these salts: a read found them in the record."""
        if self._unconfirmed:
            self._forget(salts)

    def _forget(self, salts: Set[bytes]) -> None:
        for dispatch_id, drafts in list(self._unconfirmed.items()):  # a copy, because entries are deleted below
            drafts[:] = [each for each in drafts if each.salt not in salts]
            if not drafts:
                del self._unconfirmed[dispatch_id]

    def unconfirmed_marks(self, child: Child) -> int:
        """Return the number of a child's events in drafts that are not known to be recorded."""
        drafts = self._unconfirmed.get(child.dispatch_id, ())
        progress = (each for draft in drafts for each in progress_of(draft.body))
        return sum(len(each.marks) for each in progress if each.step == child.step_idx)  # facts name steps, not ids

    def settles_unconfirmed(self, child: Child) -> bool:
        """Return whether an unconfirmed draft has the child's outcome, which then takes precedence over the record."""
        first = self.dispatches[child.dispatch_id].plan.first_step if child.dispatch_id in self.dispatches else 0
        drafts = self._unconfirmed.get(child.dispatch_id, ())
        settled = (draft.body for draft in drafts if isinstance(draft.body, CallsSettled))
        return any(first + each.place == child.step_idx for body in settled for each in body.calls)

    def give_up_progress(self, child: Child) -> None:
        """Drop the drafts with events of a child, because the record contradicts them."""
        drafts = self._unconfirmed.get(child.dispatch_id, ())
        self._forget({each.salt for each in drafts if any(p.step == child.step_idx for p in progress_of(each.body))})

    def note_claims(self, *, recorded: bool) -> None:
        """Set whether the newest fact with claims has the claims of this turn."""
        self.claims_recorded = recorded

    def begin_restoring(self) -> None:
        """Note that the record of a turn that was bound elsewhere is being read."""
        if self.origin is not Origin.UNREAD:
            raise IllegalTransition("begin_restoring", self.origin)
        self.origin = Origin.READING

    def restored(self, refused: SubagentsError | None) -> None:
        """Note that the read has ended; `refused` is the error of a failed read."""
        if self.origin is not Origin.READING:
            raise IllegalTransition("restored", self.origin)
        self.origin = Origin.READ if refused is None else Origin.UNREADABLE
        self.restoring.settle(refused)

    def note_spent(self, elsewhere: int) -> None:
        """Set the cost of the user's other turns of the day, in units of `money`."""
        self.spent_elsewhere = elsewhere

    def note_unconfirmed(self) -> None:
        """Note that the record may contain facts of the turn that were not confirmed."""
        self.uncertain = True

    def note_confirmed(self) -> None:
        """Note that the record is known here, or is about to be read."""
        self.uncertain = False

    def runs_elsewhere(self, dispatch_id: DispatchId) -> bool:
        """Return whether another living process runs the dispatch, as of the last read of the record."""
        dispatch = self.dispatches.get(dispatch_id)
        if dispatch is None or dispatch.ownership.here or dispatch.stage is DispatchStage.FINISHED:
            return False
        return dispatch.ownership.alive_elsewhere

    def end_recorded(self) -> None:
        """Note that the prepared end is recorded: no fact is left to append, and the last outcomes are reported."""
        plan = self.ending.recorded()
        for child in self.children.values():
            child.forget_waiting()
        self._unconfirmed.clear()
        for dispatch_id, outcomes in plan.settling.items():
            dispatch = self.dispatches.get(dispatch_id)
            if dispatch is not None:  # a followed dispatch is dropped when its last listener leaves
                dispatch.finish_with_turn(outcomes)

    def put_away(self) -> None:
        """Drop texts of an ended turn that only further dispatches or attempts would need."""
        if self.ending.stage is not EndStage.ENDED:
            raise IllegalTransition("put_away", self.ending.stage)
        self._unnamed = self._digests = None  # derived from the claims, so they can be computed again
        for child in self.children.values():
            if child.outcome is not None:
                child.contract_json = ""

    def slim(self) -> None:
        """Keep only the end of an ended turn, which answers repeated requests."""
        self.ending.slim()
        self.queues = TurnSlotQueues()
        for emptied in (self._dispatches, self._children, self._unconfirmed):
            emptied.clear()  # in place: the public views stay valid

    def refuse_if_over(self) -> None:
        """Raise `TurnEnded` if the turn is ending or has ended, here or elsewhere."""
        if self.ending.stage is not EndStage.OPEN:
            raise TurnEnded("the turn has ended; bind a new one", metadata={"turn_id": self.turn_id})
