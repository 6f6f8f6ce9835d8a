"""Settles the dispatches of dead sidecars, and closes turns whose parents are gone as well. Source: SX-25, SX-26."""

import asyncio
from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import Final, TypeVar

from sidecar.core.binding.surface_token import SigningKeys, SurfaceClaims, sign_token
from sidecar.core.decoding import from_json
from sidecar.core.errors import RecordConflict, StoreUnavailable, SubagentsError
from sidecar.core.executing.stored_record import StoredDispatch, StoredTurn
from sidecar.core.identifiers import DispatchId, TurnId
from sidecar.core.journal.facts import Body
from sidecar.core.journal.texts import Texts
from sidecar.operations.record.ports import is_of_unreadable_turn
from sidecar.operations.record.timed_access import append_within, read_within
from sidecar.operations.requests import OnDisconnect
from sidecar.operations.rules import DispatchRules
from sidecar.operations.turn.child.dependencies import TurnDependencies
from sidecar.operations.turn.dispatch_calls import DispatchRecovery
from sidecar.operations.turn.state.dispatch_stages import Custody, DispatchStage
from sidecar.operations.turn.state.ending import EndStage
from sidecar.operations.turn.state.open_turns import Turn, Turns
from sidecar.operations.turn.state.opening_records import request_from_json

Found = TypeVar("Found")

AT_A_TIME: Final = 100
"""The most dispatches, and the most turns, that one pass reads."""


class SettleOrphans:
    """Finds and settles turns and dispatches that no sidecar continues.

    A dispatch whose sidecar died is left to its parent for a grace period: if the parent resumes it, its calls may get
    another attempt.

    Args:
        keys: recreate the token that a turn was bound with.
    """

    def __init__(
        self,
        rules: DispatchRules,
        dependencies: TurnDependencies,
        turns: Turns,
        keys: SigningKeys,
        recovery: DispatchRecovery,
    ) -> None:
        self._rules = rules
        self._deps = dependencies
        self._turns = turns
        self._keys = keys
        self._find, self._restore, self._take_over = recovery.find, recovery.restore, recovery.take_over
        self._noticed: dict[tuple[TurnId, DispatchId | None], float] = {}  # orphans, and when they were first seen
        self._unreadable: set[TurnId] = set()
        """Turns that the last pass could not read, and has reported."""

    async def run(self) -> None:
        """Search periodically; the supervisor owns this loop."""
        while True:
            await self.look()
            await asyncio.sleep(self._rules.record_poll_interval.total_seconds())

    async def look(self) -> None:
        """Make one pass; a later pass repeats what failed."""
        try:
            await self._look()
        except StoreUnavailable:
            self._deps.recorder.anomaly("lost_work_waits", "the store does not answer")

    async def _look(self) -> None:
        store, unreadable = self._deps.store, set[TurnId]()
        for turn in self._turns:
            # Work of this process first: until it is recorded, other sidecars may see its dispatches as unfinished.
            if turn.ending.stage is EndStage.OPEN:
                await self._unless_unreadable(turn.turn_id, self._finish_own(turn), unreadable)
        # Unreadable turns stay in the lists below. The limit grows by their number, so that they displace no others.
        most = AT_A_TIME + len(self._unreadable)
        orphans = await self._read(store.left_behind(most))
        # The grace counts from the time at which this process first saw the orphan, by its own clock. The time of the
        # owner's death is unknown, and clocks of machines differ.
        self._noticed = {each: self._noticed.get(each, self._deps.clock.monotonic()) for each in orphans}
        for turn_id, dispatch_id in orphans:
            await self._unless_unreadable(turn_id, self._settle(turn_id, dispatch_id), unreadable)
        for turn_id in await self._read(store.overdue_turns(self._deps.clock.now(), most)):
            await self._unless_unreadable(turn_id, self._close(turn_id), unreadable)
        self._unreadable = unreadable

    async def _unless_unreadable(self, turn_id: TurnId, work: Awaitable[None], unreadable: set[TurnId]) -> None:
        """Await work on a turn. If the turn cannot be read, report it once and leave it: other turns must not wait."""
        try:
            await work
        except StoreUnavailable as why:
            if not is_of_unreadable_turn(why):
                raise
            if turn_id not in self._unreadable | unreadable:
                self._deps.recorder.anomaly("turn_not_recovered", str(why), {"turn_id": turn_id})
            unreadable.add(turn_id)

    async def _finish_own(self, turn: Turn) -> None:
        """Record what this process has not recorded yet of a turn."""
        await self._record_late_outcomes(turn)
        if turn.uncertain:
            await self._recover_own(turn)

    async def _record_late_outcomes(self, turn: Turn) -> None:
        """Record outcomes whose first append failed: sidecars that follow the dispatch wait for them."""
        for dispatch in list(turn.dispatches.values()):
            if dispatch.ownership.custody is not Custody.HERE or dispatch.stage is not DispatchStage.FINISHED:
                continue
            drafts = turn.in_front(dispatch.dispatch_id)
            until = self._deps.clock.monotonic() + self._rules.record_timeout.total_seconds()
            refused = await append_within(self._deps.store, drafts, until)
            if isinstance(refused, StoreUnavailable):
                raise refused
            if isinstance(refused, RecordConflict):
                dispatch.lose()
                continue
            if drafts:
                turn.recorded(dispatch.dispatch_id, drafts)

    async def _recover_own(self, turn: Turn) -> None:
        """Continue dispatches that an unconfirmed append of this process opened.

        No other sidecar does: their owner lives.
        """
        store = self._deps.store
        # Cleared before the read: an append that becomes uncertain during the read marks the turn again, and the next
        # pass reads it.
        turn.note_confirmed()
        try:
            # An empty append is a barrier: it returns after every earlier append of this process is decided.
            await self._read(store.append(()))
            await self._restore(turn)
        except StoreUnavailable:
            turn.note_unconfirmed()
            raise
        self._take_over.continue_own(turn)

    async def _read(self, reading: Awaitable[Found]) -> Found:
        found = await read_within(reading, self._rules.record_timeout.total_seconds())
        if isinstance(found, StoreUnavailable):
            raise found
        return found

    async def _settle(self, turn_id: TurnId, dispatch_id: DispatchId | None) -> None:
        """Continue a dispatch of a dead sidecar, or settle its calls once the parent's time to resume is over."""
        stored = await self._read(self._deps.store.turn(turn_id))
        dispatch = stored.dispatch(dispatch_id) if stored and dispatch_id is not None else None
        # Checked on a fresh read: between the search and now, another sidecar may have taken over the dispatch,
        # or its owner may have renewed its lease.
        if stored is None or dispatch is None or dispatch.settled or dispatch.owner_alive or stored.ended is not None:
            return
        now = self._deps.clock.now()
        if await self._continue_unheard(dispatch, now) or self._is_left_to_its_parent(dispatch, now):
            return
        from sidecar.core.journal.making.abandoned import settling  # noqa: PLC0415  rare, and a start loads little

        bodies = settling(stored, dispatch, now, self._deps.store.instance)
        await self._write(stored, bodies, now, "dispatch_settled_for_dead")

    async def _continue_unheard(self, dispatch: StoredDispatch, now: datetime) -> bool:
        """Continue a dispatch that needs no listener; return False if it needs one or cannot continue here."""
        opened = dispatch.opened
        request = request_from_json(opened.request_json, "")
        # Continuing such a dispatch without a listener would only cancel its calls; the caller settles it instead.
        if request.on_disconnect is OnDisconnect.CANCEL or now >= opened.settle_by:
            return False
        claims = from_json(opened.claims_json, SurfaceClaims)
        try:
            turn = await self._find(sign_token(claims, self._keys))
        except StoreUnavailable:
            raise  # the dispatch may still be able to continue: settling it now would discard its results
        except SubagentsError:
            return False
        live = turn.dispatches.get(opened.dispatch_id)
        if live is None or turn.ending.closed is not None:
            return False
        self._take_over(live, unheard=True)
        return True

    def _is_left_to_its_parent(self, dispatch: StoredDispatch, now: datetime) -> bool:
        key = (dispatch.opened.turn_id, dispatch.opened.dispatch_id)
        waited = self._deps.clock.monotonic() - self._noticed[key]
        return waited < self._rules.resume_grace.total_seconds() and now < dispatch.opened.settle_by

    async def _close(self, turn_id: TurnId) -> None:
        """Close a turn whose parent and sidecar are both lost."""
        # This process may know the turn as open, as ended, or not at all.
        known = self._turns.known(turn_id)
        if known is not None and known.ending.closed is None:
            return  # the reaper of this process ends it
        stored = await self._read(self._deps.store.turn(turn_id))
        if stored is None or stored.ended is not None:
            return
        me = self._deps.store.instance
        alive = [each for each in stored.dispatches if each.owner_alive]
        last = max(alive, key=lambda each: each.opened.first_step, default=None)
        # Exactly one living sidecar must close the turn. All of them see the same facts, so the owner of the last
        # dispatch is a choice without communication.
        if any(each.owner != me and (each is last or not each.settled) for each in alive):
            return  # another sidecar closes the turn
        now = self._deps.clock.now()
        from sidecar.core.journal.making.abandoned import closing  # noqa: PLC0415  rare, and a start loads little

        end = closing(stored, now, me)
        if await self._write(stored, end.said, now, "turn_closed_for_lost"):
            self._deps.recorder.turn_routed(end.routing)

    async def _write(self, stored: StoredTurn, bodies: Sequence[tuple[Body, Texts]], now: datetime, kind: str) -> bool:
        """Record the facts and log `kind`; return False if another sidecar appended to the turn first."""
        drafts = [self._deps.store.draft(stored.turn_id, now, *each) for each in bodies]
        until = self._deps.clock.monotonic() + self._rules.record_timeout.total_seconds()
        refused = await append_within(self._deps.store, drafts, until)
        if isinstance(refused, StoreUnavailable):
            raise refused
        if isinstance(refused, RecordConflict):
            return False
        self._deps.recorder.anomaly(kind, stored.turn_id)
        return True
