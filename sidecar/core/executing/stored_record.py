"""The values that a store returns: a turn as its facts describe it, and the rows and queries of lists."""

from datetime import datetime
from enum import StrEnum, unique
from typing import Generic, NamedTuple, TypeVar

import msgspec

from sidecar.core.dispatching.outcomes import CallOutcome, Outcome
from sidecar.core.dispatching.questions import AnsweredBy, Question
from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import ChildOpened, DispatchOpened, ScoreRecorded, TurnEnded
from sidecar.core.identifiers import DefinitionId, DispatchId, EpisodeId, InstanceId, Principal, Slot, TurnId
from subagents_errors import CallFailure


class StoredChild(msgspec.Struct, frozen=True):
    """One child with all its events, in order.

    Attributes:
        question: the question that it asked, unless the text was erased.
        state: the state that it left for its continuation.
        answered_by: the call that continues its work.
    """

    opened: ChildOpened
    events: tuple[ChildEvent, ...]
    question: Question | None = None
    state: bytes = b""
    answered_by: AnsweredBy | None = None


class StoredDispatch(msgspec.Struct, frozen=True):
    """One dispatch.

    Attributes:
        owner, epoch: the sidecar that may append to the dispatch now, and the number of ownership changes.
        owner_alive: the owner's lease has not expired. Also true if the reading sidecar is the owner.
        outcomes: one for each settled call, in its highest revision; in no particular order.
        cancelled: places of calls that were cancelled.
    """

    opened: DispatchOpened
    owner: InstanceId
    epoch: int
    owner_alive: bool
    outcomes: tuple[CallOutcome, ...]
    cancelled: frozenset[int] = frozenset()

    def is_over(self, place: int) -> bool:
        """Return whether a call has its outcome, or was cancelled."""
        # Outcomes have the index over the turn, `place` is the index in this dispatch.
        step = self.opened.first_step + place
        return place in self.cancelled or any(each.emission_index == step for each in self.outcomes)

    @property
    def settled(self) -> bool:
        """Return whether every call has its outcome."""
        return len(self.outcomes) == self.opened.calls


class StoredTurn(msgspec.Struct, frozen=True):
    """One turn with its dispatches and children, both in order of opening.

    Attributes:
        salts: of the turn's facts: a draft with one of these salts is on record.
        scores: of its calls, in the order in which they were recorded.
    """

    turn_id: TurnId
    dispatches: tuple[StoredDispatch, ...]
    children: tuple[StoredChild, ...]
    ended: TurnEnded | None
    routing: RoutingRecord | None
    salts: frozenset[bytes] = frozenset()
    scores: tuple[ScoreRecorded, ...] = ()

    def dispatch(self, dispatch_id: DispatchId) -> StoredDispatch | None:
        """Return one of the dispatches."""
        return next((each for each in self.dispatches if each.opened.dispatch_id == dispatch_id), None)


@unique
class TurnState(StrEnum):
    """The state of a turn. A turn without calls is recorded only at its end."""

    OPEN = "open"
    ENDED = "ended"
    LOST = "lost"
    """A sidecar ended the turn, because its parent was lost."""


class TurnRow(msgspec.Struct, frozen=True):
    """One line of a list of turns.

    Attributes:
        began_at: of the first dispatch; of the end if there was none.
        slots: the called slots, each once, in order of opening.
        calls: number of children in each of `slots`.
        failed: number of children that were closed as failed.
        outcomes: kinds of outcomes of its calls so far, each once, sorted by name.
        definitions: ids of the definitions that its children run, each once, sorted.
        reasons: why calls were not successful so far, each reason once, sorted by name. `outcomes`, `definitions` and
            `reasons` exist for the filters of lists; the row of a single turn leaves them and `calls` out.
    """

    turn_id: TurnId
    episode_id: EpisodeId
    principal: Principal
    state: TurnState
    began_at: datetime
    ended_at: datetime | None
    slots: tuple[Slot, ...]
    children: int
    failed: int
    outcomes: tuple[Outcome, ...] = ()
    definitions: tuple[DefinitionId, ...] = ()
    reasons: tuple[CallFailure, ...] = ()
    calls: tuple[int, ...] = ()


class TurnQuery(msgspec.Struct, frozen=True):
    """Which turns, newest first.

    Attributes:
        since, until: only those that began at this time or later, and only those that began before.
        outcome: only turns with a call of this outcome.
        definition: only turns with a child that runs this definition.
        reason: only turns with a call that ended for this reason.
        before: only turns that began before this place in the list; for the next page, `began_at` and `turn_id` of the
            last row. Two turns may begin at the same time, so the id decides between them.
    """

    episode_id: EpisodeId | None = None
    principal: Principal | None = None
    slot: Slot | None = None
    state: TurnState | None = None
    outcome: Outcome | None = None
    definition: DefinitionId | None = None
    reason: CallFailure | None = None
    since: datetime | None = None
    until: datetime | None = None
    before: tuple[datetime, TurnId] | None = None
    limit: int = 50


class EpisodeMark(NamedTuple):
    """The place of an episode in a list, which is sorted by it."""

    last_at: datetime
    episode_id: EpisodeId
    principal: Principal


Row = TypeVar("Row")


class ListPage(msgspec.Struct, Generic[Row], frozen=True):
    """One page of a list.

    Attributes:
        as_of: facts that were appended after this time may be missing; None: the page has every acknowledged fact.
    """

    rows: tuple[Row, ...]
    as_of: datetime | None = None


class EpisodeRow(msgspec.Struct, frozen=True):
    """One line of a list of episodes, from the recorded turns."""

    episode_id: EpisodeId
    principal: Principal
    turns: int
    first_at: datetime
    last_at: datetime
    slots: tuple[Slot, ...]
