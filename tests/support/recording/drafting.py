"""Turns records of `core/executing` into drafts of facts: `reading` backwards."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec

from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.decoding import from_json
from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.executing.contract import contract_from_json
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import (
    AttemptRecorded,
    CallSettled,
    ChildOpened,
    DispatchOpened,
    DispatchTaken,
    QuestionAnswered,
    Record,
    ScoreRecorded,
    TurnEnded,
)
from sidecar.core.identifiers import ChildId, DispatchId, InstanceId
from sidecar.core.journal import facts
from sidecar.core.journal.child_events import OF_NAME, ChildSoFar
from sidecar.core.journal.entries import Draft
from sidecar.core.journal.facts import ChildStart, Progress
from sidecar.core.journal.marks import Values, What
from sidecar.core.journal.opening.contracts import ContractTexts, below, called, stripped
from sidecar.core.journal.opening.requests import request_from_json
from sidecar.core.journal.texts import Texts
from sidecar.core.journal.turn_projection import TurnProjection, delegated_as, settled_as
from tests.support.recording.drafted_parts import (
    OpenDispatch,
    Part,
    claims_at_end,
    end_of,
    microseconds,
    open_dispatch,
    opening_of,
    settlement_of,
    texts_of_outcome,
)
from tests.support.recording.marking import marked

BEGINNING: Final = frozenset({What.CREATED, What.STARTED})
WORK_ENDS: Final = frozenset({What.WAITING, What.FAILED})
VERDICTS: Final = frozenset({What.ACCEPTED, What.REJECTED, What.CLOSED})


class Undraftable(ValueError):
    """Records name what is not on record, or hold what no fact can hold."""


class Drafted(msgspec.Struct, frozen=True):
    """A draft, and whether the events in it follow those that are on record."""

    draft: Draft
    follows: bool


class _Life:
    """One child while records of it are taken: what its next events are derived from, and which wait for a fact."""

    def __init__(self, so_far: ChildSoFar, link: str) -> None:
        self.so_far, self.link = so_far, link
        self.waiting: list[ChildEvent] = []
        self.follows = True

    @property
    def step(self) -> int:
        return self.so_far.opened.step_idx

    @property
    def whats(self) -> list[What | None]:
        return [OF_NAME.get(event.name) for event in self.waiting]

    def take(self, event: ChildEvent) -> None:
        self.follows = self.follows and event.previous_link == self.link
        self.link = event.link
        self.waiting.append(event)

    def upto_end_of_work(self) -> int:
        """Return how many waiting events are of its work; 0 if the work does not end with them."""
        return next((number for number, what in enumerate(self.whats, 1) if what in WORK_ENDS), 0)


class Drafting:
    """Takes records of one turn by one sidecar, in order; they are appended together, or not at all.

    Args:
        reading: what is on record of the turn. Records that are there already are not to be taken.
        by: the sidecar.
    """

    def __init__(self, reading: TurnProjection, by: InstanceId) -> None:
        self._reading, self._by = reading, by
        self._drafts: list[Drafted] = []
        self._claims = reading.claims
        self._dispatches = {
            each: open_dispatch(dispatch.opened, dispatch.request, dispatch.claims)
            for each, dispatch in reading.dispatches.items()
        }
        self._lives: dict[ChildId, _Life] = {}
        self._opening: OpenDispatch | None = None
        self._starts: list[ChildStart] = []
        self._contracts: list[ContractTexts] = []
        self._settled: dict[DispatchId, list[CallSettled]] = {}
        self._ended: TurnEnded | None = None
        self._routing: RoutingRecord | None = None

    def drafts(self, records: Iterable[Record]) -> list[Drafted]:
        """Return the facts that `records` become. Raises `Undraftable`."""
        try:
            for record in records:
                self._take(record)
            self._open()
            self._settle()
            self._go_on()
            self._end()
        except (LookupError, ValueError) as error:
            raise Undraftable(str(error)) from error
        return self._drafts

    def _take(self, record: Record) -> None:
        match record:
            case ChildEvent():
                self._event(record)
            case ChildOpened():
                self._child(record)
            case CallSettled():
                self._settled.setdefault(record.dispatch_id, []).append(record)
            case DispatchOpened():
                self._open()
                request = request_from_json(record.request_json, record.dispatch_id)
                self._opening = open_dispatch(record, request, from_json(record.claims_json, SurfaceClaims))
                self._dispatches[record.dispatch_id] = self._opening
            case DispatchTaken():
                self._open()
                self._add(Part(facts.DispatchTaken(record.dispatch_id, record.epoch), Texts()), record.taken_at)
            case TurnEnded():
                self._ended = record
            case RoutingRecord():
                self._routing = record
            case QuestionAnswered() | ScoreRecorded():
                raise Undraftable("answers to questions and scores are written as facts")
            case AttemptRecorded():
                pass  # a row of its own, see `attempt_frames`

    # --- what begins

    def _open(self) -> None:
        """Draft the dispatch that is being opened, with the children that came with it."""
        dispatch, self._opening = self._opening, None
        if dispatch is None:
            return
        part = opening_of(dispatch, self._new(dispatch.claims))
        body = msgspec.structs.replace(part.body, children=tuple(self._starts))
        texts = msgspec.structs.replace(part.texts, contracts=tuple(self._contracts))
        self._starts, self._contracts = [], []
        self._add(Part(body, texts), dispatch.opened.opened_at)

    def _child(self, opened: ChildOpened) -> None:
        parent = None if opened.parent_child_id is None else self._life(opened.parent_child_id)
        dispatch, contract = self._dispatches[opened.dispatch_id], contract_from_json(opened.context_json)
        claims, slot, step = dispatch.claims, opened.slot, opened.step_idx
        bare, texts = stripped(
            contract,
            called(claims, slot, step, dispatch.request, dispatch.places[opened.call_id])
            if parent is None
            else below(claims, slot, step, parent.so_far.opened.child_id, parent.so_far.contract),
        )
        above = None if parent is None else parent.step
        with_dispatch = self._opening is not None and self._opening.opened.dispatch_id == opened.dispatch_id
        at = dispatch.opened.opened_at if with_dispatch else opened.opened_at
        start = ChildStart(opened.child_id, slot, step, microseconds(opened.opened_at - at), bare, above)
        if with_dispatch and parent is None:
            self._starts.append(start)
            self._contracts.append(texts)
        else:
            self._open()
            values: list[Values] = []
            progress = () if parent is None else (self._progress(parent, at, values, delegated=delegated_as(start)),)
            body = facts.ChildrenOpened(opened.dispatch_id, (start,), progress)
            follows = parent is None or parent.follows
            self._add(Part(body, Texts(contracts=(texts,), values=tuple(values))), at, follows=follows)
        self._lives[opened.child_id] = _Life(ChildSoFar(opened, contract, above), opened.link)

    # --- what goes on

    def _event(self, event: ChildEvent) -> None:
        life, what = self._life(event.child_id), OF_NAME.get(event.name)
        if what in BEGINNING and not life.waiting and event.child_id not in self._reading.steps:
            life.link = event.link  # derived from its start
            return
        self._open()
        life.take(event)
        if what is What.ATTEMPT and event.details().get("number", 0) > 1:
            self._progressed(facts.AttemptRepeated, life)

    def _settle(self) -> None:
        """Draft the outcomes, each with the end of its child's work."""
        for dispatch_id, settled in self._settled.items():
            dispatch, at = self._dispatches[dispatch_id], settled[-1].settled_at
            calls = tuple(settlement_of(each, dispatch, at) for each in settled)
            progress, values, follows = list[Progress](), list[Values](), True
            for child_id in dict.fromkeys(each.outcome.child_id for each in settled):
                life = None if child_id is None else self._life(child_id)
                count = 0 if life is None else life.upto_end_of_work()
                if life is not None and count:
                    first = next(each.outcome for each in settled if each.outcome.child_id == child_id)
                    progress.append(self._progress(life, at, values, count=count, settled=settled_as(first)))
                    follows = follows and life.follows
            texts = tuple(texts_of_outcome(each.outcome, dispatch) for each in settled)
            body = facts.CallsSettled(dispatch_id, calls, tuple(progress))
            self._add(Part(body, Texts(outcomes=texts, values=tuple(values))), at, follows=follows)

    def _go_on(self) -> None:
        """Draft what else happened to children, unless the end of the turn has it."""
        if self._ended is not None:
            return
        for life in self._lives.values():
            whats = set(life.whats)
            if not whats:
                continue
            if life.so_far.parent is not None and whats & (VERDICTS | WORK_ENDS):
                self._progressed(facts.DelegationSettled, life)
            elif whats & VERDICTS:
                self._progressed(facts.ChildClosed, life)
            elif whats & WORK_ENDS:
                at, values = life.waiting[-1].time, list[Values]()
                body = facts.CallsSettled(life.so_far.opened.dispatch_id, (), (self._progress(life, at, values),))
                self._add(Part(body, Texts(values=tuple(values))), at, follows=life.follows)
            else:
                self._progressed(facts.ChildNoted, life)

    def _end(self) -> None:
        if self._ended is None and self._routing is None:
            return
        if self._ended is None or self._routing is None:
            raise Undraftable("half of the end of a turn")
        at, values = self._ended.ended_at, list[Values]()
        claims = self._new(claims_at_end(self._ended, self._routing, self._claims))
        part = end_of(self._ended, self._routing, self._dispatches, claims)
        lives = [life for life in self._lives.values() if life.waiting]
        progress = tuple(self._progress(life, at, values) for life in lives)
        body = msgspec.structs.replace(part.body, progress=progress)
        texts = msgspec.structs.replace(part.texts, values=tuple(values))
        self._add(Part(body, texts), at, follows=all(life.follows for life in lives))

    # --- parts

    def _new(self, claims: SurfaceClaims) -> SurfaceClaims | None:
        """Return claims if they are not those of the facts before."""
        if claims.turn_id != self._reading.turn_id:
            raise ValueError(f"claims of another turn: {claims.turn_id}")
        known, self._claims = self._claims, claims
        return None if claims == known else claims

    def _life(self, child_id: ChildId) -> _Life:
        life = self._lives.get(child_id)
        if life is None:
            child = self._reading.children[self._reading.steps[child_id]]
            life = self._lives[child_id] = _Life(child.so_far.copy(), child.link)
        return life

    def _progressed(
        self,
        kind: type[facts.AttemptRepeated | facts.ChildNoted | facts.DelegationSettled | facts.ChildClosed],
        life: _Life,
    ) -> None:
        at, values = life.waiting[-1].time, list[Values]()
        body = kind(life.so_far.opened.dispatch_id, (self._progress(life, at, values),))
        self._add(Part(body, Texts(values=tuple(values))), at, follows=life.follows)

    def _progress(
        self,
        life: _Life,
        at: datetime,
        values: list[Values],
        *,
        count: int | None = None,
        settled: Values = (),
        delegated: Values = (),
    ) -> Progress:
        """Return the first waiting events of a child, all if `count` is None; adds to `values`."""
        count = len(life.waiting) if count is None else count
        events, life.waiting = life.waiting[:count], life.waiting[count:]
        marks = []
        for event in events:
            found = marked(event, at, life.so_far.about(settled, delegated))
            life.so_far.note(found.mark.what, found.details)
            marks.append(found.mark)
            values.append(found.values)
        return Progress(life.step, tuple(marks), life.so_far.attempts)

    def _add(self, part: Part, at: datetime, *, follows: bool = True) -> None:
        self._drafts.append(Drafted(Draft(self._reading.turn_id, self._by, at, part.body, part.texts), follows))
