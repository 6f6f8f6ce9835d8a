"""One turn while it is kept here. `live_dispatch.Turn` is this with the dispatches that point back to it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Generic, Protocol, TypeVar

import msgspec

from sidecar.core.binding.surface import Surface
from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.definitions.cards.prompt import DynamicContext, suffix_of
from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.errors import SubagentsError, TurnEnded
from sidecar.core.executing.records import CallSettled
from sidecar.core.history.compaction import CompactionDue
from sidecar.core.identifiers import CallId, ChildId, DispatchId, TurnId
from sidecar.operations.first_result import Ending
from sidecar.operations.requests import DispatchRequest
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.dispatch_stages import DispatchStage, Ownership
from sidecar.operations.turn.state.ending import EndStage, TurnEnding
from sidecar.operations.turn.state.lanes import TurnLanes
from sidecar.operations.turn.state.transitions import IllegalTransition


class Origin(Enum):
    """Where a turn was bound, and how much of it is known here.

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


class KeptDispatch(Protocol):
    """What a turn itself asks of its dispatches; see `LiveDispatch`."""

    dispatch_id: DispatchId
    request: DispatchRequest
    stage: DispatchStage
    ownership: Ownership

    def lose(self) -> None:
        """Give it up: another sidecar has gone on with it."""

    def finish_with_turn(self, outcomes: Mapping[CallId, CallOutcome]) -> None:
        """Take the outcomes that the end of the turn gave to its calls, which are on record."""


Dispatch = TypeVar("Dispatch", bound=KeptDispatch)


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
        late: outcomes that could not be recorded when they came; they go along with the end.
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
    lanes: TurnLanes = field(default_factory=TurnLanes)
    uncertain: bool = False
    overhead: timedelta = timedelta(0)
    idle_since: float = 0.0
    works: int = 0
    ending: TurnEnding = field(default_factory=TurnEnding)
    origin: Origin = Origin.BOUND_HERE
    restoring: Ending[SubagentsError | None] = field(default_factory=Ending)

    turn_id: TurnId = field(init=False)
    dispatches: Mapping[DispatchId, Dispatch] = field(init=False)
    children: Mapping[ChildId, Child] = field(init=False)
    late: Sequence[CallSettled] = field(init=False)
    prompt_suffix: str = field(init=False)
    _dispatches: dict[DispatchId, Dispatch] = field(init=False, default_factory=dict)
    _children: dict[ChildId, Child] = field(init=False, default_factory=dict)
    _late: list[CallSettled] = field(init=False, default_factory=list)
    _claims_json: str = field(init=False, default="")

    @property
    def claims_json(self) -> str:
        """The claims as text; made when they are first needed: most turns call nothing."""
        if not self._claims_json:
            self._claims_json = msgspec.json.encode(self.claims).decode()
        return self._claims_json

    def __post_init__(self) -> None:
        """Make the suffix once: it is the same for the orchestrator and every sub-agent."""
        claims = self.claims
        self.turn_id = claims.turn_id
        self.dispatches, self.children, self.late = self._dispatches, self._children, self._late
        date = datetime.fromisoformat(claims.date).date()
        self.prompt_suffix = suffix_of(DynamicContext(date, claims.location, claims.principal, claims.locale))

    def children_of(self, dispatch_id: DispatchId) -> list[Child]:
        """Return the children that the orchestrator's calls of a dispatch have, in emission order."""
        called = (each for each in self.children.values() if each.contract.parent_child_id is None)
        return sorted((each for each in called if each.dispatch_id == dispatch_id), key=lambda each: each.step_idx)

    def accept(self, dispatch: Dispatch) -> None:
        """Keep a dispatch that begins here; its calls are counted from now on."""
        if self.ending.stage is not EndStage.OPEN or dispatch.dispatch_id in self.dispatches:
            raise IllegalTransition("accept", self.ending.stage)
        self._dispatches[dispatch.dispatch_id] = dispatch
        self.next_step += len(dispatch.request.calls)

    def bring_back(self, dispatch: Dispatch) -> None:
        """Keep a dispatch as the record says that it is, in the place of what was known of it."""
        self._dispatches[dispatch.dispatch_id] = dispatch

    def drop(self, dispatch: Dispatch) -> None:
        """Forget a dispatch, unless another state of it is kept by now."""
        if self.dispatches.get(dispatch.dispatch_id) is dispatch:
            del self._dispatches[dispatch.dispatch_id]

    def lose(self, dispatch: Dispatch) -> None:
        """Forget a dispatch that another sidecar has gone on with, which settles what could not be recorded here."""
        dispatch.lose()
        self.drop(dispatch)
        self._late[:] = [each for each in self._late if each.dispatch_id != dispatch.dispatch_id]

    def take_steps(self, count: int) -> None:
        """Give the next emission indexes away."""
        self.next_step += count

    def count_steps_from(self, step: int) -> None:
        """Give no emission index below `step` away any more: those are on record."""
        self.next_step = max(self.next_step, step)

    def keep_child(self, child: Child) -> None:
        """Keep a child that is on record, in the place of what was known of it."""
        self._children[child.child_id] = child

    def add_late(self, settled: CallSettled) -> None:
        """Have an outcome that could not be recorded go along with the end."""
        self._late.append(settled)

    def late_recorded(self, recorded: Collection[CallSettled]) -> None:
        """Some of these outcomes are on record after all."""
        self._late[:] = [each for each in self._late if each not in recorded]

    def begin_restoring(self) -> None:
        """What is on record of a turn that was bound elsewhere is being read."""
        if self.origin is not Origin.UNREAD:
            raise IllegalTransition("begin_restoring", self.origin)
        self.origin = Origin.READING

    def restored(self, refused: SubagentsError | None) -> None:
        """It was read, or could not be."""
        if self.origin is not Origin.READING:
            raise IllegalTransition("restored", self.origin)
        self.origin = Origin.READ if refused is None else Origin.UNREADABLE
        self.restoring.settle(refused)

    def note_unconfirmed(self) -> None:
        """The store may have something of the turn that it did not confirm."""
        self.uncertain = True

    def note_confirmed(self) -> None:
        """What the store has of the turn is known, or is about to be read."""
        self.uncertain = False

    def runs_elsewhere(self, dispatch_id: DispatchId) -> bool:
        """Say whether another process that lives runs a dispatch, as far as is known here."""
        dispatch = self.dispatches.get(dispatch_id)
        if dispatch is None or dispatch.ownership.here or dispatch.stage is DispatchStage.FINISHED:
            return False
        return dispatch.ownership.alive_elsewhere

    def end_recorded(self) -> None:
        """The end is on record as it was laid out: nothing is left to be written, and the last outcomes are told."""
        laid_out = self.ending.recorded()
        for child in self.children.values():
            child.forget_unsaved()
        for dispatch_id, outcomes in laid_out.settling.items():
            dispatch = self.dispatches.get(dispatch_id)
            if dispatch is not None:  # one that was followed here may have lost its last listener meanwhile
                dispatch.finish_with_turn(outcomes)

    def put_away(self) -> None:
        """Forget texts of an ended turn that only dispatches and attempts to come would need."""
        if self.ending.stage is not EndStage.ENDED:
            raise IllegalTransition("put_away", self.ending.stage)
        self._claims_json = ""
        for child in self.children.values():
            if child.outcome is not None:
                child.contract_json = ""

    def slim(self) -> None:
        """Forget everything of an ended turn but how it ended, which is what a repeated end is answered with."""
        self.ending.slim()
        self.lanes = TurnLanes()
        for kept in (self._dispatches, self._children, self._late):
            kept.clear()

    def refuse_if_over(self) -> None:
        """Raise `TurnEnded` once the turn is being ended, or has been by another process."""
        if self.ending.stage is not EndStage.OPEN:
            raise TurnEnded("the turn has ended; bind a new one", metadata={"turn_id": self.turn_id})
