"""Kills: they hold here first, then in the flag's backend and on record, and wait for neither. Source: PF1-FR-9, TN-60.

No gate, no policy and no revision is asked. With backend and store away a kill holds in the replicas that were asked;
`RecordStops` puts it on record as soon as the store is back, and however many replicas do so, it is one event.
"""

import asyncio
from typing import Final

import msgspec

from sidecar.core.errors import (
    RequestIdReused,
    RevisionConflict,
    StoreUnavailable,
    SubagentsError,
    TransitionRefused,
)
from sidecar.core.rollout import changes
from sidecar.core.rollout.events import Happening
from sidecar.core.rollout.facts import DefinitionFacts, SlotRollout
from sidecar.core.rollout.states import Trigger
from sidecar.core.rollout.step import By, Change, event_about
from sidecar.core.rollout.view import as_revised
from sidecar.operations.record.timed_access import in_time
from sidecar.operations.rollout.answers import DONE, answered_before, is_done, stored_answer
from sidecar.operations.rollout.audit_context import by_of
from sidecar.operations.rollout.definition_lookup import Found, found_here, found_in, not_found, unseen, with_digest
from sidecar.operations.rollout.requests import Kill, StepAnswer
from sidecar.operations.rollout.stops.kill_flags import NOTHING, Beside, flag_off, is_shared
from sidecar.operations.rollout.stops.stop_first import (
    FLAG,
    RECORD,
    REPLICA,
    StopParts,
    hold,
    is_full,
    let_go,
    let_go_once_shown,
    stop_of,
)
from sidecar.operations.rollout.store.ports import LocalStop, RolloutWrite, StopKind, StoredAnswer

LONGEST_WRITE: Final = 2.0
"""Seconds for the store."""
NOT_RECORDED: Final = "the store is away: the kill is put on record as soon as that is back"
TRIES: Final = 20
"""How often a kill is laid out anew because somebody else wrote first."""


class KillDefinition:
    """The operation behind `Kill`, and behind a kill flag that was seen to fall."""

    def __init__(self, parts: StopParts) -> None:
        """Join the parts."""
        self._parts = parts
        self._unconfirmed, self._counted = set[str](), set[str]()

    async def __call__(self, asked: Kill, actor: str) -> StepAnswer:
        """Kill a definition; the answer says what that has reached.

        Raises:
            TransitionRefused: it is in `dev`, in `test` and its flag was never created, or being decommissioned.
            RequestIdReused, UnknownSubagent.
            StoreUnavailable: the store is away, and nothing here knows which definition is meant.
        """
        found = self._here(asked)
        if asked.dry_run:
            return await self._shown(asked, actor)
        if found is None or not self._stops(found, asked, actor):
            return await self._by_the_record(asked, actor)
        stop = stop_of(asked, StopKind.KILL, found, (actor, self._parts.clock))
        warnings = await hold(self._parts, stop)
        if is_shared(self._parts, found[1]):
            recorded = await self._recorded(asked, stop)
            switched = await self._last_resort(found, recorded, actor)
        else:
            off = flag_off(self._parts, found[1], actor)
            switched, recorded = await asyncio.gather(off, self._recorded(asked, stop))
        return await self._answer(asked, found, recorded, (*switched, warnings))

    async def record(self, asked: Kill, stop: LocalStop, *, held: bool = True) -> StepAnswer:
        """Put a kill on record, unless it is; says `changed` only to the one who did it.

        A request id that was used before, or refused before, does not hold a kill up: it is recorded without an answer.
        So is the same request again, if its definition id means another definition by now: that is held here already.
        What is `held` here was judged when it was taken: that its flag cannot be seen now does not end it.

        Raises:
            TransitionRefused, UnknownSubagent, StoreUnavailable.
        """
        store = self._parts.store
        for _ in range(TRIES):
            earlier = await store.answer(asked.request_id)
            by = msgspec.structs.replace(self._by(asked, stop.by), at=stop.at)
            found = await self._on_record(asked, stop)
            done = earlier is not None and is_done(earlier, asked, stop.by)
            if earlier is not None and done and not self._stops(found, asked, stop.by):
                return await self._known(asked, stop, earlier)
            try:
                return await self._write_or_refuse(asked, found, by, answered=earlier is None, held=held)
            except (RevisionConflict, RequestIdReused):  # somebody was first, with another write or with this very id
                self._unconfirmed.discard(asked.request_id)
        raise StoreUnavailable(f"the rollout of {asked.definition_id} is changed all the time")

    async def record_pending(self, asked: Kill, stop: LocalStop) -> None:
        """Put a kill on record that was taken before. Raises what `record` does; what is refused is not pending."""
        answer = await self._recorded(asked, stop)
        if isinstance(answer, SubagentsError):
            raise answer

    async def _recorded(self, asked: Kill, stop: LocalStop, *, held: bool = True) -> StepAnswer | SubagentsError:
        """Put a kill on record, or return why not; what the record refuses for good is not tried again."""
        try:
            answer: StepAnswer | SubagentsError = await in_time(self.record(asked, stop, held=held), LONGEST_WRITE)
        except SubagentsError as refused:
            answer = refused
        if not isinstance(answer, StoreUnavailable):
            await (let_go_once_shown if isinstance(answer, StepAnswer) else let_go)(self._parts, stop)
        return answer

    async def _write_or_refuse(self, asked: Kill, found: Found, by: By, *, answered: bool, held: bool) -> StepAnswer:
        try:
            return await self._write(asked, found, self._laid_out(found, by, held=held), by, answered=answered)
        except TransitionRefused as refused:
            if answered:
                await self._keep_refusal(asked, found, by, refused)
            raise

    async def _write(self, asked: Kill, found: Found, change: Change, by: By, *, answered: bool) -> StepAnswer:
        before, facts = found
        after = change.rollout
        answer = _answer_of(asked, after, after.definitions[facts.digest], changed=after is not before)
        write = RolloutWrite(
            slot=before.slot,
            expected_revision=before.revision,
            rollout=after if answer.changed else None,
            transitions=change.transitions,
            events=change.events,
            answer=stored_answer(asked, DONE, msgspec.json.encode(answer).decode(), by) if answered else None,
        )
        self._unconfirmed.add(asked.request_id)
        await self._parts.store.write(write)
        if answer.changed:
            self._count(asked, answer.definition_id)
        return answer

    async def _known(self, asked: Kill, stop: LocalStop, earlier: StoredAnswer) -> StepAnswer:
        """Return what the same request was answered with; a kill whose confirmation was lost is counted now."""
        answer = answered_before(earlier, asked, stop.by)
        if answer.changed and asked.request_id in self._unconfirmed:
            self._count(asked, answer.definition_id)
        return answer

    def _count(self, asked: Kill, name: str) -> None:
        if asked.request_id not in self._counted:  # the loop of what is pending may have done it
            self._parts.recorder.kill_switch_fired(name)
        self._counted.add(asked.request_id)

    async def _on_record(self, asked: Kill, stop: LocalStop) -> Found:
        """Return the definition as it is on record; one that was revised since is meant by its id."""
        slots = {each.slot: each for each in await self._parts.store.rollouts()}
        said = {"definition_id": stop.definition_id, "slot": stop.slot, "digest": stop.digest}
        exact = msgspec.structs.replace(asked, **said, expected_revision=None)
        named = msgspec.structs.replace(exact, digest=asked.digest or stop.digest)
        found = found_in(slots, exact) or found_in(slots, named)
        revised = as_revised(slots[stop.slot], stop.definition_id) if stop.slot in slots else None
        if found is None and revised is not None:
            return slots[stop.slot], revised
        by_id = msgspec.structs.replace(exact, digest="", slot=asked.slot)
        found = found or found_in(slots, by_id) or with_digest(slots, stop.digest)  # that content is what is held
        if found is not None:
            return found
        raise not_found(slots, by_id)

    async def _by_the_record(self, asked: Kill, actor: str) -> StepAnswer:
        """Kill what this replica does not know of, or holds for one that cannot be killed: the record may know more."""
        rollouts = await in_time(self._parts.store.rollouts(), LONGEST_WRITE)
        if isinstance(rollouts, StoreUnavailable):
            return await self._in_the_dark(asked, actor, rollouts)
        slots = {each.slot: each for each in rollouts}
        found = found_in(slots, asked)
        if found is None:
            raise not_found(slots, asked)
        stop = stop_of(asked, StopKind.KILL, found, (actor, self._parts.clock))
        holds = self._stops(found, asked, actor)
        warnings = await hold(self._parts, stop) if holds else ()
        recorded = await self._recorded(asked, stop, held=holds)
        if isinstance(recorded, StoreUnavailable) and not holds:
            raise recorded  # nothing is held here, and nobody can say whether anything is on record
        switched = NOTHING
        if isinstance(recorded, StepAnswer) and not is_shared(self._parts, found[1]):
            switched = await flag_off(self._parts, found[1], actor)
        return await self._answer(asked, found, recorded, (*switched, warnings))

    async def _in_the_dark(self, asked: Kill, actor: str, away: StoreUnavailable) -> StepAnswer:
        """Hold a kill though neither memory nor record can say of what: if it names a digest, that is never served."""
        found = self._here(asked)
        if found is not None:
            self._laid_out(found, self._by(asked, actor))
        if found is not None or not asked.digest or is_full(self._parts):
            raise away
        found = unseen(asked.digest, asked.definition_id, asked.slot)
        warnings = await hold(self._parts, stop_of(asked, StopKind.KILL, found, (actor, self._parts.clock)))
        return await self._answer(asked, found, away, (*NOTHING, warnings))

    async def _last_resort(self, found: Found, recorded: StepAnswer | SubagentsError, actor: str) -> Beside:
        """Switch a flag off that stands for others too, if nothing but it tells the other replicas of the kill."""
        if not isinstance(recorded, StoreUnavailable):
            return NOTHING
        return await flag_off(self._parts, found[1], actor)

    async def _shown(self, asked: Kill, actor: str) -> StepAnswer:
        slots = {each.slot: each for each in await self._parts.store.rollouts()}
        found = found_in(slots, asked)
        if found is None:
            raise not_found(slots, asked)
        after = self._laid_out(found, self._by(asked, actor)).rollout
        return _answer_of(asked, after, after.definitions[found[1].digest], changed=False)

    async def _keep_refusal(self, asked: Kill, found: Found, by: By, refused: SubagentsError) -> None:
        rollout, facts = found
        detail = f"{refused.reason}: {refused.message}"
        event = event_about(rollout, facts, Happening.REFUSED, by, (facts.ramp, facts.ramp), detail)
        answer = stored_answer(asked, refused.reason, refused.message, by)
        write = RolloutWrite(slot=rollout.slot, expected_revision=rollout.revision, events=(event,), answer=answer)
        await self._parts.store.write(write)

    def _here(self, asked: Kill) -> Found | None:
        return found_here(self._parts.views.current().slots, asked, self._parts.card)

    def _by(self, asked: Kill, actor: str) -> By:
        return by_of(asked, actor, self._parts.clock.now(), self._parts.surrounding())

    def _laid_out(self, found: Found, by: By, *, held: bool = False) -> Change:
        """Return what a kill makes of a rollout. Raises `TransitionRefused`."""
        rollout, facts = found
        exists = facts.flag is not None and self._parts.flags().exists(facts.flag, facts.vertical)
        return changes.kill(rollout, facts.digest, Trigger.KILL_SWITCH, by, flag_exists=held or exists)

    def _stops(self, found: Found, asked: Kill, actor: str) -> bool:
        """Say whether a kill would change anything, as far as is known here."""
        try:
            return self._laid_out(found, self._by(asked, actor)).rollout != found[0]
        except TransitionRefused:
            return False

    async def _answer(
        self,
        asked: Kill,
        found: Found,
        recorded: StepAnswer | SubagentsError,
        beside: tuple[tuple[str, ...], bool, tuple[str, ...]],
    ) -> StepAnswer:
        """Return what a kill has reached, shown by the binds here; or raise what the record refused it with."""
        edits, off, warnings = beside
        reached = [REPLICA, *([FLAG] if off else [])]
        if isinstance(recorded, StepAnswer):
            version = self._parts.views.current().version
            answer = msgspec.structs.replace(recorded, version=version)
            reached.append(RECORD)
        elif isinstance(recorded, StoreUnavailable):
            answer = msgspec.structs.replace(_answer_of(asked, *found, changed=True), active=False)
            warnings = (*warnings, NOT_RECORDED)
        else:
            raise recorded
        return msgspec.structs.replace(answer, reached=tuple(reached), edits=edits, warnings=warnings)


def _answer_of(asked: Kill, rollout: SlotRollout, facts: DefinitionFacts, *, changed: bool) -> StepAnswer:
    return StepAnswer(
        slot=rollout.slot,
        definition_id=facts.definition_id,
        digest=facts.digest,
        state=facts.state,
        ramp=facts.ramp,
        active=rollout.active == facts.digest,
        revision=rollout.revision,
        changed=changed,
    )
