"""Switches one flag of a definition by hand: a pause, its end, or a kill. Source: TN-56, TN-82, PF1-D-7, PF1-D-25.

No lifecycle moves here. That a kill flag fell is seen by `FlagEdges` like anybody's switch, and is one kill; the audit
has who switched it as an event of its own before. Flags of the embedded backend are switched in the transaction that
keeps audit and answer. Those of `memory` are switched first: they go with the process, as the audit beside them does.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import msgspec

from sidecar.core.errors import RevisionConflict, StoreUnavailable, TransitionRefused
from sidecar.core.flag_states import FlagValue
from sidecar.core.identifiers import Vertical
from sidecar.core.rollout.events import Happening
from sidecar.core.rollout.facts import DefinitionFacts, SlotRollout
from sidecar.core.rollout.flags_by_hand import (
    Behind,
    FlagSwitched,
    affected,
    behind,
    flag_of,
    refuse_off,
    refuse_on,
)
from sidecar.core.rollout.step import By, event_about
from sidecar.operations.rollout.answers import DONE, answered_before, stored_answer
from sidecar.operations.rollout.audit_context import by_of
from sidecar.operations.rollout.definition_lookup import Found, found_in, not_found
from sidecar.operations.rollout.requests import StepAnswer, SwitchFlag, SwitchFlagOff, SwitchFlagOn
from sidecar.operations.rollout.stops.stop_first import StopParts
from sidecar.operations.rollout.store.flag_writes import FlagWrite, KeepsFlags
from sidecar.operations.rollout.store.ports import FlagWriter, RolloutWrite, StoredAnswer, StoredFlag

LONGEST_SWITCH: Final = 2.0
"""Seconds for a flag's backend."""
TRIES: Final = 5
"""How often a switch off is laid out anew because somebody else wrote first."""


@dataclass(frozen=True, slots=True)
class _LaidOut:
    """One switch, as it is to be.

    Attributes:
        kept: the flag as the store keeps it; None: it does not, or nobody has created it.
        before: what it is; None: nobody has created it.
    """

    rollout: SlotRollout
    facts: DefinitionFacts
    name: str
    writer: FlagWriter
    kept: StoredFlag | None
    before: FlagValue | None
    everybody: tuple[Behind, ...]


class SwitchFlagByHand:
    """The operation behind `SwitchFlagOn`, `SwitchCohortFlagOff` and `SwitchKillFlagOff`."""

    def __init__(self, parts: StopParts) -> None:
        """Join the parts."""
        self._parts = parts

    async def __call__(self, asked: SwitchFlag, actor: str) -> StepAnswer:
        """Switch a flag, or answer as before; where flags are embedded, the binds here show it when it is answered.

        Raises:
            TransitionRefused: no flag decides about the definition, or it may not go on by hand.
            RevisionConflict: the rollout or the flag is another one than was read; off only if the request says which.
            RequestIdReused, UnknownSubagent.
            StoreUnavailable: the flag cannot be switched, or nobody can say how the rollouts stand.
        """
        unread = isinstance(asked, SwitchFlagOff) and asked.expected_revision is None and asked.expected_version is None
        conflict = RevisionConflict(f"{asked.definition_id} is changed all the time; ask again")
        for _ in range(TRIES if unread else 1):
            earlier = await self._parts.store.answer(asked.request_id)
            if earlier is not None:
                return answered_before(earlier, asked, actor)
            try:
                return await self._attempt(asked, actor)
            except RevisionConflict as other:
                conflict = other
        earlier = await self._parts.store.answer(asked.request_id)  # of another attempt of this very request
        if earlier is not None:
            return answered_before(earlier, asked, actor)
        raise conflict

    async def _attempt(self, asked: SwitchFlag, actor: str) -> StepAnswer:
        rollouts = await self._parts.store.rollouts()
        slots = {each.slot: each for each in rollouts}
        found = found_in(slots, asked)
        if found is None:
            raise not_found(slots, asked)
        _refuse_other(asked.expected_revision, found[0].revision, f"the rollout of {found[0].slot}", "revision")
        by = self._by(asked, actor)
        try:
            plan = await self._laid_out(asked, found, rollouts)
        except TransitionRefused as refused:
            if not asked.dry_run:
                await self._keep_refusal(asked, found, by, refused)
            raise
        version = plan.kept.revision if plan.kept else 0
        _refuse_other(asked.expected_version, version, f"the flag {plan.name}", "version")
        return await self._switched(asked, plan, by)

    async def _laid_out(self, asked: SwitchFlag, found: Found, rollouts: Sequence[SlotRollout]) -> _LaidOut:
        rollout, facts = found
        name, backend = flag_of(facts, asked.flag), self._parts.flags().routes.backend_of
        home = backend(facts.vertical)
        everybody = behind(rollouts, name, lambda vertical: backend(vertical) == home)
        writer = self._parts.writer_of(facts.vertical)
        kept, before = await self._present(writer, name, facts.vertical)
        others = [each for each in everybody if each.facts.digest != facts.digest]
        if isinstance(asked, SwitchFlagOn):
            refuse_on(facts, asked.flag, others, before)
            if facts.digest in self._parts.tombstones.all():
                raise TransitionRefused(f"{facts.definition_id} was killed here; that is not on record yet")
        else:
            refuse_off(name, asked.flag, others)
        return _LaidOut(rollout, facts, name, writer, kept, before, everybody)

    async def _present(
        self, writer: FlagWriter, name: str, vertical: Vertical
    ) -> tuple[StoredFlag | None, FlagValue | None]:
        """Return a flag as it is kept, and what it is: of a backend elsewhere, as it was last heard."""
        if not isinstance(writer, KeepsFlags):
            return None, self._parts.flags().value(name, vertical)
        kept = await writer.kept(name)
        return kept, None if kept is None else FlagValue.ON if kept.on else FlagValue.OFF

    async def _switched(self, asked: SwitchFlag, plan: _LaidOut, by: By) -> StepAnswer:
        on = isinstance(asked, SwitchFlagOn)
        wanted = FlagValue.ON if on else FlagValue.OFF
        as_wanted = plan.before is wanted or (plan.before is None and not on)  # off is what nobody has created
        if as_wanted or asked.dry_run:
            answer = self._answer(asked, plan, changed=False)
            if not asked.dry_run:
                await self._parts.store.write(_write(plan, _stored(asked, answer, by)))
            return answer
        edit = plan.writer.edit_for(plan.name, on)
        if edit:
            return msgspec.structs.replace(self._answer(asked, plan, changed=False), edits=(edit,))
        answer = self._answer(asked, plan, changed=True)
        before = plan.before.value if plan.before else FlagValue.OFF.value
        detail = f"{asked.flag} flag {plan.name}: {before} -> {wanted.value}"
        ramp = (plan.facts.ramp, plan.facts.ramp)
        event = event_about(plan.rollout, plan.facts, Happening.FLAG_SWITCHED, by, ramp, detail)
        write = msgspec.structs.replace(_write(plan, _stored(asked, answer, by)), events=(event,))
        if plan.kept is not None:
            flag = StoredFlag(plan.name, on, plan.kept.revision + 1, by.at, by.actor)
            write = FlagWrite(**msgspec.structs.asdict(write), flag=flag)
        else:
            await self._at_backend(plan, on, by.actor)
        await self._parts.store.write(write)
        await self._parts.views.look()  # it has the flags fetched first
        return msgspec.structs.replace(answer, version=await self._parts.store.version())

    async def _at_backend(self, plan: _LaidOut, on: bool, actor: str) -> None:
        try:
            async with asyncio.timeout(LONGEST_SWITCH):
                await plan.writer.switch(plan.name, on, actor)
        except Exception as error:
            self._parts.recorder.anomaly("flag_not_switched", f"{plan.name}: {type(error).__name__}")
            raise StoreUnavailable(
                f"the flag {plan.name} could not be switched; `Kill` and `RampDown` need no flag",
                retry_after=timedelta(seconds=1),
            ) from error

    def _answer(self, asked: SwitchFlag, plan: _LaidOut, *, changed: bool) -> StepAnswer:
        rollout, facts, on = plan.rollout, plan.facts, isinstance(asked, SwitchFlagOn)
        before = plan.before or FlagValue.OFF
        after = (FlagValue.ON if on else FlagValue.OFF) if changed else before
        return StepAnswer(
            slot=rollout.slot,
            definition_id=asked.definition_id,
            digest=facts.digest,
            state=facts.state,
            ramp=facts.ramp,
            active=rollout.active == facts.digest,
            revision=rollout.revision,
            changed=changed,
            flag=FlagSwitched(
                kind=asked.flag,
                name=plan.name,
                backend=self._parts.flags().routes.backend_of(facts.vertical),
                before=before,
                after=after,
                version=plan.kept.revision + changed if plan.kept else 0,
                affected=affected(plan.everybody, on=on),
            ),
        )

    async def _keep_refusal(self, asked: SwitchFlag, found: Found, by: By, refused: TransitionRefused) -> None:
        rollout, facts = found
        ramp, detail = (facts.ramp, facts.ramp), f"{refused.reason}: {refused.message}"
        event = event_about(rollout, facts, Happening.REFUSED, by, ramp, detail)
        event = msgspec.structs.replace(event, sought=asked.sought)
        answer = stored_answer(asked, refused.reason, refused.message, by)
        await self._parts.store.write(
            RolloutWrite(slot=rollout.slot, expected_revision=rollout.revision, events=(event,), answer=answer)
        )

    def _by(self, asked: SwitchFlag, actor: str) -> By:
        return by_of(asked, actor, self._parts.clock.now(), self._parts.surrounding())


def _write(plan: _LaidOut, answer: StoredAnswer) -> RolloutWrite:
    return RolloutWrite(slot=plan.rollout.slot, expected_revision=plan.rollout.revision, answer=answer)


def _stored(asked: SwitchFlag, answer: StepAnswer, by: By) -> StoredAnswer:
    return stored_answer(asked, DONE, msgspec.json.encode(answer).decode(), by)


def _refuse_other(expected: int | None, present: int, what: str, of_what: str) -> None:
    if expected not in {None, present}:
        raise RevisionConflict(f"{what} has {of_what} {present}, not {expected}", metadata={of_what: str(present)})
