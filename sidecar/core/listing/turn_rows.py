"""The row of a turn in lists, and the row of an episode, derived from facts.

Lists are long, so a row is derived only from what it shows: no event is created, and no link is verified.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from datetime import UTC, date, datetime

from msgspec import Struct

from sidecar.core.dispatching.outcomes import Outcome
from sidecar.core.dispatching.routing_record import distinct
from sidecar.core.executing.events import PARENT_LOST
from sidecar.core.executing.stored_record import EpisodeMark, EpisodeRow, TurnQuery, TurnRow, TurnState
from sidecar.core.identifiers import DefinitionId, DispatchId, EpisodeId, Principal, Slot, TurnId
from sidecar.core.journal.encoding import body_of, texts_of
from sidecar.core.journal.entries import Stored
from sidecar.core.journal.facts import CallsSettled, ChildrenOpened, DispatchOpened, TurnEnded
from sidecar.core.journal.heads import progress_of
from sidecar.core.journal.marks import What
from subagents_errors import CallFailure


class TurnLine(Struct, frozen=True):
    """A turn as lists show it after some of its facts.

    Attributes:
        version: number of facts.
        day: of the first fact, in UTC; the partition of the turn.
        row: None if lists omit the turn, because it has neither a dispatch nor an end.
    """

    turn_id: TurnId
    version: int
    day: date
    row: TurnRow | None


def turn_line(turn_id: TurnId, facts: Sequence[Stored]) -> TurnLine:
    """Return the row of a turn after its first facts, at least one. Raises `UnreadableFact`."""
    reading = TurnLineBuilder(turn_id)
    for stored in facts:
        reading.take(stored)
    return reading.line()


class TurnLineBuilder:
    """Builds the row of a turn fact by fact.

    Attributes:
        version: number of facts.
        slots: of its children, by step.
        accepted, failed: steps of children whose result the parent accepted, and of those closed without acceptance.
        outcomes: by call, with the valid revision, and the reason if the call was not a success.
        definitions: of its children.
    """

    def __init__(self, turn_id: TurnId) -> None:
        """Begin before the first fact."""
        self.turn_id = turn_id
        self.version = 0
        self._day: date | None = None
        self._of: tuple[EpisodeId, Principal] | None = None
        self._began_at: datetime | None = None
        self._ended_at: datetime | None = None
        self._state = TurnState.OPEN
        self.slots: dict[int, Slot] = {}
        self.accepted: set[int] = set()
        self.failed: set[int] = set()
        self.outcomes: dict[tuple[DispatchId, int], tuple[int, Outcome, CallFailure | None]] = {}
        self.definitions: set[DefinitionId] = set()

    @property
    def ended(self) -> bool:
        """Return whether the turn has ended."""
        return self._ended_at is not None

    def copy(self) -> "TurnLineBuilder":
        """Return a copy of this state."""
        other = copy(self)
        # The collections are copied, too: the projector changes the copy, and the original must stay valid if the
        # projector's pass fails.
        other.slots, other.accepted, other.failed = dict(self.slots), set(self.accepted), set(self.failed)
        other.outcomes, other.definitions = dict(self.outcomes), set(self.definitions)
        return other

    def take(self, stored: Stored) -> None:
        """Add the next fact. Raises `UnreadableFact`, after which the builder must not be used."""
        body = body_of(stored)
        self.version += 1
        self._day = self._day or stored.at.astimezone(UTC).date()
        if isinstance(body, DispatchOpened | TurnEnded) and body.claims is not None and self._of is None:
            user = texts_of(stored).user
            # After an erasure the claims are still there, but the texts with the user are not.
            self._of = body.claims.episode_id, Principal("" if user is None else user.principal)
        if isinstance(body, DispatchOpened):
            # Two dispatches of one turn may be recorded in another order than they began.
            self._began_at = stored.at if self._began_at is None else min(self._began_at, stored.at)
        if isinstance(body, DispatchOpened | ChildrenOpened):
            self.slots |= {start.step: start.slot for start in body.children}
            self.definitions |= {DefinitionId(each.contract.definition_id or each.slot) for each in body.children}
        if isinstance(body, CallsSettled):
            for call in body.calls:
                known = self.outcomes.get((body.dispatch_id, call.place))
                # Facts of both revisions may arrive in either order; the higher revision is the outcome.
                if known is None or call.revision >= known[0]:
                    self.outcomes[body.dispatch_id, call.place] = call.revision, call.outcome, call.reason
        for progress in progress_of(body):
            for mark in progress.marks:
                if mark.what is What.ACCEPTED:
                    self.accepted.add(progress.step)
                # A close without an acceptance before it: the child counts as failed.
                elif mark.what is What.CLOSED and progress.step not in self.accepted:
                    self.failed.add(progress.step)
        if isinstance(body, TurnEnded):
            self._ended_at = stored.at
            # No parent ended such a turn: a sidecar closed it after the parent was lost.
            self._state = TurnState.LOST if body.close_reason == PARENT_LOST else TurnState.ENDED

    def line(self) -> TurnLine:
        """Return the row after the facts so far. Raises `ValueError` before the first one."""
        if self._day is None:
            raise ValueError(f"nothing is known of turn {self.turn_id}")
        return TurnLine(self.turn_id, self.version, self._day, self._row())

    def _row(self) -> TurnRow | None:
        # A turn without dispatches has only the fact of its end, so its begin is not known.
        began_at = self._began_at or self._ended_at
        if self._of is None or began_at is None:
            return None
        called: dict[Slot, int] = {}
        # By step: facts may be recorded in another order than the model emitted the calls.
        for step in sorted(self.slots):
            called[self.slots[step]] = called.get(self.slots[step], 0) + 1
        return TurnRow(
            turn_id=self.turn_id,
            episode_id=self._of[0],
            principal=self._of[1],
            state=self._state,
            began_at=began_at,
            ended_at=self._ended_at,
            slots=tuple(called),
            children=len(self.slots),
            failed=len(self.failed),
            # Sorted, so that the row does not depend on the order of a set.
            outcomes=tuple(sorted({outcome for _, outcome, _ in self.outcomes.values()})),
            definitions=tuple(sorted(self.definitions)),
            reasons=tuple(sorted({reason for _, _, reason in self.outcomes.values() if reason is not None})),
            calls=tuple(called.values()),
        )


def labels_of(row: TurnRow) -> list[str]:
    """Return the labels by which lists find a turn, besides its own columns; each kind has its own prefix."""
    return [
        *[f"slot:{slot}" for slot in row.slots],
        *[f"outcome:{outcome}" for outcome in row.outcomes],
        *[f"definition:{definition}" for definition in row.definitions],
        *[f"reason:{reason}" for reason in row.reasons],
    ]


def labels_asked(query: TurnQuery) -> list[str]:
    """Return the labels that a turn must have, the probably rarest first."""
    # Databases search by the first label and only check the others.
    asked = (
        ("reason", query.reason),
        ("definition", query.definition),
        ("slot", query.slot),
        ("outcome", query.outcome),
    )
    return [f"{kind}:{value}" for kind, value in asked if value is not None]


Newer = Mapping[TurnId, TurnRow | None]
"""Rows that replace others of the same turn; None: the turn is in no list."""


def listed(rows: Iterable[TurnRow], newer: Newer, query: TurnQuery) -> list[TurnRow]:
    """Return the rows of a query, newest first."""
    # Newer rows first, then the filters: a turn that no longer fits the query must not appear with its old row.
    found = [row for row in with_newer(rows, newer) if _fits(row, query)]
    return sorted(found, key=_newest, reverse=True)[: query.limit]


def with_newer(rows: Iterable[TurnRow], newer: Newer) -> list[TurnRow]:
    """Return the rows, with newer ones replacing others of the same turn."""
    return [*(row for row in rows if row.turn_id not in newer), *(row for row in newer.values() if row is not None)]


def _newest(row: TurnRow) -> tuple[datetime, TurnId]:
    # The id decides between turns of the same time. Otherwise a page could repeat or omit one of them.
    return row.began_at, row.turn_id


def _fits(row: TurnRow, query: TurnQuery) -> bool:
    return (
        query.episode_id in {None, row.episode_id}
        and query.principal in {None, row.principal}
        and query.state in {None, row.state}
        and (query.slot is None or query.slot in row.slots)
        and (query.outcome is None or query.outcome in row.outcomes)
        and (query.definition is None or query.definition in row.definitions)
        and (query.reason is None or query.reason in row.reasons)
        and (query.since is None or row.began_at >= query.since)
        and (query.until is None or row.began_at < query.until)
        and (query.before is None or _newest(row) < query.before)
    )


class EpisodeActivity(Struct, frozen=True):
    """Some turns of one episode and user that called the same slots in the same order.

    Attributes:
        first: begin of the oldest of them, and its id.
        last_at: begin of the newest of them.
        turns: their number.
    """

    episode_id: EpisodeId
    principal: Principal
    first: tuple[datetime, TurnId]
    last_at: datetime
    turns: int
    slots: tuple[Slot, ...]


def use_of(row: TurnRow) -> EpisodeActivity:
    """Return the activity of one turn."""
    return EpisodeActivity(row.episode_id, row.principal, _newest(row), row.began_at, 1, row.slots)


def episode_rows(uses: Iterable[EpisodeActivity], limit: int, before: EpisodeMark | None = None) -> list[EpisodeRow]:
    """Return the most recently used episodes, newest first, from the activities of all their turns.

    `before`: position of the last episode of the previous page; only episodes that are older are returned.
    """
    episodes: dict[tuple[str, str], list[EpisodeActivity]] = {}
    for use in uses:
        # By user as well: ids of episodes come from clients, and two users may have the same one.
        episodes.setdefault((use.episode_id, use.principal), []).append(use)
    found = [_episode(sorted(each, key=lambda use: use.first)) for each in episodes.values()]
    # After the grouping: the position of an episode is that of its newest turn, also on later pages.
    listed = found if before is None else [row for row in found if mark_of(row) < before]
    return sorted(listed, key=mark_of, reverse=True)[:limit]


def mark_of(row: EpisodeRow) -> EpisodeMark:
    """Return the position of an episode in lists, which are newest first."""
    return EpisodeMark(row.last_at, row.episode_id, row.principal)


def _episode(uses: list[EpisodeActivity]) -> EpisodeRow:
    oldest, turns = uses[0], sum(use.turns for use in uses)
    # In the order in which the episode first used them, because `uses` are sorted.
    slots = distinct([slot for use in uses for slot in use.slots])
    last_at = max(use.last_at for use in uses)
    return EpisodeRow(oldest.episode_id, oldest.principal, turns, oldest.first[0], last_at, slots)
