"""One turn in memory. `live_dispatch.Turn` adds the dispatches that refer back to it."""

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
        BOUND_HERE: by this process, which knows all of it.
        UNREAD: elsewhere; what is on record of it has not been read.
        READING: it is being read.
        READ: what is on record of it is known here.
        UNREADABLE: it could not be read, and the turn is forgotten.
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
        """Give it up: another sidecar has taken it over."""

    def finish_with_turn(self, outcomes: Mapping[CallId, CallOutcome]) -> None:
        """Take the outcomes that the end of the turn gave to its calls, which are on record."""


Dispatch = TypeVar("Dispatch", bound=DispatchState)


@dataclass(slots=True)
class TurnState(Generic[Dispatch]):
    """One open turn, and what has been dispatched in it.

    Attributes:
        claims, token: as signed at bind.
        compaction_due: what bind said; the same each time it is repeated here.
        next_step: emission index of the next call.
        reap_at: of the loop's clock.
        uncertain: the store did not confirm something that it may have even so: it is read before the turn is ended.
        idle_since: of the loop's clock: when anything of it was asked for last, or the last work in it was over.
        works: pieces of work that run in it: dispatches, and its end.
        overhead: what its dispatches took beside the time of their sub-agents.
        ending: how far its end has come.
        claims_recorded: the newest fact with claims has these.
        origin: where it was bound, and how much of it is known here.
        restoring: settled once what is on record of a turn bound elsewhere is known here, or cannot be read.
        prompt_suffix: of every prompt of the turn.
    """

    claims: SurfaceClaims
    token: str
    surface: Surface
    reap_at: float
    bind_request: object = None
    compaction_due: CompactionDue = CompactionDue.UNKNOWN
    next_step: int = 0
    lanes: TurnSlotQueues = field(default_factory=TurnSlotQueues)
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
        """What the claims bind, by slot."""
        if self._digests is None:
            self._digests = dict(self.claims.tools)
        return self._digests

    def __post_init__(self) -> None:
        """Make the suffix once: it is the same for the orchestrator and every sub-agent."""
        claims = self.claims
        self.turn_id = claims.turn_id
        self.dispatches, self.children = self._dispatches, self._children
        date = datetime.fromisoformat(claims.date).date()
        self.prompt_suffix = suffix_of(DynamicContext(date, claims.location, claims.principal, claims.locale))

    def children_of(self, dispatch_id: DispatchId) -> list[Child]:
        """Return the children that the orchestrator's calls of a dispatch have, in emission order."""
        called = (each for each in self.children.values() if each.contract.parent_child_id is None)
        return sorted((each for each in called if each.dispatch_id == dispatch_id), key=lambda each: each.step_idx)

    def accept(self, dispatch: Dispatch) -> None:
        """Add a dispatch that begins here; its calls count from now on."""
        if self.ending.stage is not EndStage.OPEN or dispatch.dispatch_id in self.dispatches:
            raise IllegalTransition("accept", self.ending.stage)
        self._dispatches[dispatch.dispatch_id] = dispatch
        self.next_step += len(dispatch.request.calls)

    def bring_back(self, dispatch: Dispatch) -> None:
        """Replace the known state of a dispatch by the recorded one."""
        self._dispatches[dispatch.dispatch_id] = dispatch

    def drop(self, dispatch: Dispatch) -> None:
        """Remove a dispatch, unless another state of it has replaced it."""
        if self.dispatches.get(dispatch.dispatch_id) is dispatch:
            del self._dispatches[dispatch.dispatch_id]

    def lose(self, dispatch: Dispatch) -> None:
        """Remove a dispatch that another sidecar has taken over; that sidecar settles the unrecorded calls."""
        dispatch.lose()
        self.drop(dispatch)
        self._unconfirmed.pop(dispatch.dispatch_id, None)

    def take_steps(self, count: int) -> None:
        """Give the next emission indexes away."""
        self.next_step += count

    def count_steps_from(self, step: int) -> None:
        """Give no emission index below `step` away any more: those are on record."""
        self.next_step = max(self.next_step, step)

    def keep_child(self, child: Child) -> None:
        """Add a recorded child, in place of the known state of it."""
        self._children[child.child_id] = child

    # --- what is not known to be on record

    @property
    def unrecorded(self) -> bool:
        """Whether something of it is known here only."""
        return bool(self._unconfirmed) or any(child.waits_for_a_fact for child in self.children.values())

    def in_front(self, dispatch_id: DispatchId) -> Sequence[Draft]:
        """Return what happened in a dispatch and was not confirmed: the next append of the dispatch begins with it.

        An append that still waits may be among it: the store decides in order, and knows a draft again.
        """
        return tuple(self._unconfirmed.get(dispatch_id, ()))

    def happened(self, dispatch_id: DispatchId, drafts: Sequence[Draft]) -> None:
        """Hold drafts that are about to be appended, until they are recorded."""
        if drafts:
            self._unconfirmed.setdefault(dispatch_id, []).extend(drafts)

    def recorded(self, dispatch_id: DispatchId, drafts: Sequence[Draft]) -> None:
        """Drop recorded or refused drafts. Others may have been added since, and two appends may run at once."""
        kept = self._unconfirmed.get(dispatch_id)
        if kept is None:
            return
        if len(drafts) >= len(kept) and drafts[-1] is kept[-1]:
            del self._unconfirmed[dispatch_id]  # the usual case: nothing came in
        else:
            self._forget({each.salt for each in drafts})

    def found_on_record(self, salts: Set[bytes]) -> None:
        """The record was read, and has facts with these salts."""
        if self._unconfirmed:
            self._forget(salts)

    def _forget(self, salts: Set[bytes]) -> None:
        for dispatch_id, drafts in list(self._unconfirmed.items()):
            drafts[:] = [each for each in drafts if each.salt not in salts]
            if not drafts:
                del self._unconfirmed[dispatch_id]

    def unconfirmed_marks(self, child: Child) -> int:
        """Return how many events of a child are in drafts that are not known to be on record."""
        drafts = self._unconfirmed.get(child.dispatch_id, ())
        told = (each for draft in drafts for each in progress_of(draft.body))
        return sum(len(each.marks) for each in told if each.step == child.step_idx)

    def settles_unconfirmed(self, child: Child) -> bool:
        """Return whether an outcome of a child is still to be written; it then counts, whatever the record has."""
        first = self.dispatches[child.dispatch_id].plan.first_step if child.dispatch_id in self.dispatches else 0
        drafts = self._unconfirmed.get(child.dispatch_id, ())
        settled = (draft.body for draft in drafts if isinstance(draft.body, CallsSettled))
        return any(first + each.place == child.step_idx for body in settled for each in body.calls)

    def give_up_progress(self, child: Child) -> None:
        """Drop the drafts about a child, because the record contradicts them."""
        drafts = self._unconfirmed.get(child.dispatch_id, ())
        self._forget({each.salt for each in drafts if any(of.step == child.step_idx for of in progress_of(each.body))})

    def note_claims(self, *, recorded: bool) -> None:
        """Return whether the newest fact with claims has those of the turn."""
        self.claims_recorded = recorded

    def begin_restoring(self) -> None:
        """The record of a turn that was bound elsewhere is being read."""
        if self.origin is not Origin.UNREAD:
            raise IllegalTransition("begin_restoring", self.origin)
        self.origin = Origin.READING

    def restored(self, refused: SubagentsError | None) -> None:
        """The read has ended, successfully or not."""
        if self.origin is not Origin.READING:
            raise IllegalTransition("restored", self.origin)
        self.origin = Origin.READ if refused is None else Origin.UNREADABLE
        self.restoring.settle(refused)

    def note_spent(self, elsewhere: int) -> None:
        """Note what the user's other turns of the day have cost, in units of `money`."""
        self.spent_elsewhere = elsewhere

    def note_unconfirmed(self) -> None:
        """The store may have something of the turn that it did not confirm."""
        self.uncertain = True

    def note_confirmed(self) -> None:
        """What the store has of the turn is known, or is about to be read."""
        self.uncertain = False

    def runs_elsewhere(self, dispatch_id: DispatchId) -> bool:
        """Return whether another process that lives runs a dispatch, as far as is known here."""
        dispatch = self.dispatches.get(dispatch_id)
        if dispatch is None or dispatch.ownership.here or dispatch.stage is DispatchStage.FINISHED:
            return False
        return dispatch.ownership.alive_elsewhere

    def end_recorded(self) -> None:
        """The prepared end is recorded: nothing is left to write, and the last outcomes are reported."""
        laid_out = self.ending.recorded()
        for child in self.children.values():
            child.forget_waiting()
        self._unconfirmed.clear()
        for dispatch_id, outcomes in laid_out.settling.items():
            dispatch = self.dispatches.get(dispatch_id)
            if dispatch is not None:  # one that was followed here may have lost its last listener meanwhile
                dispatch.finish_with_turn(outcomes)

    def put_away(self) -> None:
        """Forget texts of an ended turn that only dispatches and attempts to come would need."""
        if self.ending.stage is not EndStage.ENDED:
            raise IllegalTransition("put_away", self.ending.stage)
        self._unnamed = self._digests = None
        for child in self.children.values():
            if child.outcome is not None:
                child.contract_json = ""

    def slim(self) -> None:
        """Keep only the end of an ended turn, which answers repeated ends."""
        self.ending.slim()
        self.lanes = TurnSlotQueues()
        for kept in (self._dispatches, self._children, self._unconfirmed):
            kept.clear()

    def refuse_if_over(self) -> None:
        """Raise `TurnEnded` once the turn is being ended, or has been by another process."""
        if self.ending.stage is not EndStage.OPEN:
            raise TurnEnded("the turn has ended; bind a new one", metadata={"turn_id": self.turn_id})
