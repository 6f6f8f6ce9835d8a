"""Kills: they take effect here first, then in the flag backend and the record, without waiting for either.

`steps/phases.py` lists what a kill skips on its way to the record. Source: PF1-FR-9, TN-60.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple

import msgspec

from sidecar.core.definitions.cards.card import Card
from sidecar.core.errors import RequestIdReused, RevisionConflict, StoreUnavailable
from sidecar.core.identifiers import Digest
from sidecar.core.rollout.facts import DefinitionFacts, FlagPair
from sidecar.core.rollout.states import LifecycleState
from sidecar.core.rollout.transitions import may_be_killed, refuse_kill
from sidecar.core.rollout.view import sharing_flag
from sidecar.operations.record.timed_access import read_within
from sidecar.operations.rollout.definition_lookup import (
    DefinitionMatch,
    definition_not_seen,
    match_in,
    match_in_memory,
    not_found,
)
from sidecar.operations.rollout.requests import Kill, StepAnswer
from sidecar.operations.rollout.steps.phases import StopInEffect
from sidecar.operations.rollout.steps.step_flags import FlagSwitching
from sidecar.operations.rollout.steps.take_step import ExecuteStep
from sidecar.operations.rollout.stops.local_stop import (
    FLAG,
    LONGEST_WRITE,
    REPLICA,
    ApplyStopLocally,
    Recorded,
    reach_of,
)
from sidecar.operations.rollout.store.ports import LocalStop, RolloutWrite, StopKind
from sidecar.operations.rollout.stored_answers import answer_about

LONGEST_SWITCH: Final = 2.0
"""Seconds that the backend of a flag has for one switch."""


class FlagOff(NamedTuple):
    """The result of switching a kill flag off.

    Attributes:
        edits: what an operator must change in a backend that the sidecar cannot write.
        off: the flag is off now.
    """

    edits: tuple[str, ...] = ()
    off: bool = False


class KillDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """The operation behind `Kill`, and behind the edge of a kill flag.

    Attributes:
        stops: applies the kill locally.
        take: takes the step in the record.
        flags: knows whether a kill flag exists, and its writer.
        card_of: returns a card that was ever loaded here.
    """

    stops: ApplyStopLocally
    take: ExecuteStep
    flags: FlagSwitching
    card_of: Callable[[Digest], Card | None]
    # Request ids: writes that may have succeeded, and kills that were counted. Ids stay, because kills are rare.
    _unconfirmed: set[str] = msgspec.field(default_factory=set)
    _counted: set[str] = msgspec.field(default_factory=set)

    async def __call__(self, asked: Kill, actor: str) -> StepAnswer:
        """Kill a definition; the answer says what the kill has reached.

        Raises:
            RequestIdReused, UnknownDefinition.
            TransitionRefused: the definition is in `dev`, is in `test` and its flag was never created, or is being
                decommissioned.
            StoreUnavailable: the store is unavailable, and this process does not know which definition is meant.
        """
        # A dry run must have no effect here either, so it does not hold a local stop.
        if asked.dry_run:
            return await self.take(asked, actor)
        found = self._match_here(asked)
        if found is None or not self._may_be_killed(found.facts):
            return await self._by_the_record(asked, actor)
        # `hold` comes first: it alone stops the definition here. Flag and record tell the other replicas, and may fail.
        stop = self.stops.stop_of(asked, StopKind.KILL, found, actor)
        warnings = await self.stops.hold(stop)
        if self._is_shared(found.facts):
            recorded = await self.record(asked, stop)
            # A shared flag would kill other definitions too: switch it off only if nothing else tells the replicas.
            store_failed = isinstance(recorded, StoreUnavailable)
            switched = await self._flag_off(found.facts, actor) if store_failed else FlagOff()
        else:
            # Both at once: either of the two tells the other replicas, and each may hang while its system is down.
            switched, recorded = await asyncio.gather(self._flag_off(found.facts, actor), self.record(asked, stop))
        return self._answer(stop, found, recorded, switched, warnings)

    async def record(self, asked: Kill, stop: LocalStop, *, held: bool = True) -> Recorded:
        """Record a kill, unless it is recorded already; return the record's answer, or the error if there is none.

        `held`: the kill is in effect here, and was checked before. That its flag cannot be seen now does not end it.
        """
        taking = self.take(asked, stop.by, StopInEffect(stop=stop, judged=held, write=partial(self._write, asked)))
        return await self.stops.recorded(stop, self._take_and_count(asked, taking), LONGEST_WRITE)

    async def _write(self, asked: Kill, write: RolloutWrite) -> None:
        # Before the write: if its answer is lost, a repetition finds the kill recorded and must still count it.
        self._unconfirmed.add(asked.request_id)
        try:
            await self.stops.store.write(write)
        except (RevisionConflict, RequestIdReused):
            self._unconfirmed.discard(asked.request_id)
            raise

    async def _take_and_count(self, asked: Kill, taking: Awaitable[StepAnswer]) -> StepAnswer:
        """Count a kill once: when it is recorded here, or when an unconfirmed write turns out to have succeeded."""
        answer = await taking
        if answer.changed and (not answer.repeated or asked.request_id in self._unconfirmed):
            # Counted once per request, whichever attempt notices first that the write has succeeded.
            if asked.request_id not in self._counted:  # `RecordStops` may have recorded and counted it meanwhile
                self.stops.recorder.kill_switch_fired(answer.definition_id)
            self._counted.add(asked.request_id)
        return answer

    async def _by_the_record(self, asked: Kill, actor: str) -> StepAnswer:
        """Kill a definition that this replica does not know, or considers not killable: the record may know better."""
        rollouts = await read_within(self.stops.store.rollouts(), LONGEST_WRITE)
        if isinstance(rollouts, StoreUnavailable):
            return await self._kill_unknown(asked, actor, rollouts)
        slots = {each.slot: each for each in rollouts}
        found = match_in(slots, asked)
        if found is None:
            raise not_found(slots, asked)
        stop = self.stops.stop_of(asked, StopKind.KILL, found, actor)
        # Held here before the write: the store may fail between the read above and the write.
        holds = self._may_be_killed(found.facts)
        warnings = await self.stops.hold(stop) if holds else ()
        recorded = await self.record(asked, stop, held=holds)
        if isinstance(recorded, StoreUnavailable) and not holds:
            raise recorded  # no local stop is in effect, and the record may not have the kill
        switched = FlagOff()
        # After the record, unlike in `__call__`: here the record decides whether there is anything to kill.
        if isinstance(recorded, StepAnswer) and not self._is_shared(found.facts):
            switched = await self._flag_off(found.facts, actor)
        return self._answer(stop, found, recorded, switched, warnings)

    async def _kill_unknown(self, asked: Kill, actor: str, unavailable: StoreUnavailable) -> StepAnswer:
        """Hold a kill of an unknown definition: if the request names a digest, that digest is never served here."""
        found = self._match_here(asked)
        if found is not None:
            refuse_kill(found.facts, flag_exists=self.flags.kill_flag_exists(found.facts))
        # Without the store and without a digest there is nothing definite to stop. A full list of stops must not grow
        # by requests that nothing verifies.
        if found is not None or not asked.digest or self.stops.is_full():
            raise unavailable
        found = definition_not_seen(asked.digest, asked.definition_id, asked.slot)
        stop = self.stops.stop_of(asked, StopKind.KILL, found, actor)
        return self._answer(stop, found, unavailable, FlagOff(), await self.stops.hold(stop))

    def _match_here(self, asked: Kill) -> DefinitionMatch | None:
        return match_in_memory(self.stops.views.current().slots, asked, self.card_of)

    def _may_be_killed(self, facts: DefinitionFacts) -> bool:
        """Return whether a kill would change anything, as far as this process knows."""
        return may_be_killed(facts, flag_exists=self.flags.kill_flag_exists(facts))

    def _is_shared(self, facts: DefinitionFacts) -> bool:
        """Return whether switching a definition's kill flag off would also kill other definitions."""
        return facts.flag is not None and bool(sharing_flag(self.stops.views.current().slots, facts))

    async def _flag_off(self, facts: DefinitionFacts, actor: str) -> FlagOff:
        """Switch the kill flag off. Never raises."""
        # Only flags that the sidecar created: a flag that a person created may have other uses. In `rollback` the
        # definition serves no user, and `ReleaseFlags` switches its flags off.
        created = facts.flags in {FlagPair.CREATED, FlagPair.ON}
        if facts.flag is None or not created or facts.state is LifecycleState.ROLLBACK:
            return FlagOff()
        try:
            writer = self.flags.writer_of(facts.vertical)
            edit = writer.edit_for(facts.flag, False)
            if edit:
                return FlagOff(edits=(edit,))
            async with asyncio.timeout(LONGEST_SWITCH):
                await writer.switch(facts.flag, False, actor)
        except Exception as error:  # noqa: BLE001  boundary to a backend: whatever it raises, the kill continues
            self.stops.recorder.anomaly("kill_flag_not_off", f"{facts.flag}: {type(error).__name__}")
            return FlagOff()
        return FlagOff(off=True)

    def _answer(
        self, stop: LocalStop, found: DefinitionMatch, recorded: Recorded, switched: FlagOff, warnings: tuple[str, ...]
    ) -> StepAnswer:
        """Return what a kill has reached, including binds here; or raise the record's refusal."""
        here = (REPLICA, *([FLAG] if switched.off else []))
        local_answer = msgspec.structs.replace(answer_about(*found), active=False, reached=here, edits=switched.edits)
        answer = reach_of(stop, local_answer, recorded, warnings)
        version = self.stops.views.current().version if isinstance(recorded, StepAnswer) else 0
        return msgspec.structs.replace(answer, version=version)
