"""The values that a store returns."""

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
        owner, epoch: who may append to it now.
        owner_alive: its lease has not run out. True for the instance that asks, too.
        outcomes: one per settled call, the revision that stands; in no special order.
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
        step = self.opened.first_step + place
        return place in self.cancelled or any(each.emission_index == step for each in self.outcomes)

    @property
    def settled(self) -> bool:
        """Return whether every call has its outcome."""
        return len(self.outcomes) == self.opened.calls


class StoredTurn(msgspec.Struct, frozen=True):
    """All of one turn, in order of opening.

    Attributes:
        salts: of the facts that say it: a draft whose salt is among them is on record.
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
    """Closed for its parent."""


class TurnRow(msgspec.Struct, frozen=True):
    """One line of a list of turns.

    Attributes:
        began_at: of the first dispatch; of the end if there was none.
        slots: called, each once, in order of opening.
        calls: how many children ran in each of `slots`.
        failed: children closed as failed.
        outcomes: of its calls so far, each kind once, by name.
        definitions: ids of those that its children run, each once, by name.
        reasons: for which its calls were not a success so far, each once, by name. Lists are filtered by these three;
            the row of a single turn leaves them and `calls` out.
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
        outcome: only those in which a call came to it.
        definition: only those in which a child runs it.
        reason: only those in which a call ended for it.
        before: only those that began before; for the next page, `began_at` and `turn_id` of the last row.
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
    """A list.

    Attributes:
        as_of: what was appended later may be missing from it; None: everything that was acknowledged is in it.
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
