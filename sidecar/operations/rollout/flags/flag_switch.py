"""Switches one flag of a definition by hand: a pause, its end, or a kill. Source: TN-56, TN-82, PF1-D-7, PF1-D-25.

No lifecycle state changes here. `KillFlagWatcher` notices a kill flag that was switched off here like one that was
switched off elsewhere, and makes one kill of it. The audit records the operator of the switch in a separate, earlier
event. Flags of the embedded backend are switched in the transaction that stores audit and answer. Flags of the
backend `memory` are switched first: they are lost with the process, as is the audit next to them.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

import msgspec

from sidecar.core.errors import RevisionConflict, StoreUnavailable, TransitionRefused
from sidecar.core.flag_states import FlagSnapshot, FlagValue
from sidecar.core.identifiers import Digest, Vertical
from sidecar.core.rollout.events import RolloutEventKind
from sidecar.core.rollout.facts import SlotRollout
from sidecar.core.rollout.manual_flags import FlagSwitched, affected, definitions_using, flag_of, refuse_off, refuse_on
from sidecar.core.rollout.step import Actor, Change, event_about
from sidecar.operations.rollout.definition_lookup import DefinitionMatch
from sidecar.operations.rollout.requests import SwitchFlag, SwitchFlagOn
from sidecar.operations.rollout.store.flag_writes import FlagStore, FlagWrite
from sidecar.operations.rollout.store.ports import RolloutRecorder, RolloutWrite, StoredFlag
from sidecar.policy.protocols import FlagWriter

LONGEST_SWITCH: Final = 2.0
"""Seconds for a flag's backend."""


class FlagPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One planned switch by an operator.

    Attributes:
        change: its audit event; none if the flag already has the wanted state.
        kept: the stored flag; None: it belongs to an external backend, or was never created.
        writer: switches the flag, if the store does not contain it.
        on: the wanted state.
        told: the flag in the answer, once it is switched.
    """

    change: Change
    writer: FlagWriter
    on: bool
    kept: StoredFlag | None
    told: FlagSwitched

    def answer(self, *, switched: bool) -> FlagSwitched:
        """Return the flag for the answer."""
        version = self.kept.revision if self.kept else 0
        # Each switch of a stored flag increases its version by one; `switched` counts as 1.
        after = self.told.after if switched else self.told.before
        return msgspec.structs.replace(self.told, after=after, version=version + switched if self.kept else 0)

    def written(self, write: RolloutWrite, by: Actor) -> RolloutWrite:
        """Return the write, extended by the switch if the store contains the flag."""
        if self.kept is None or not self.change.events:
            return write
        flag = StoredFlag(self.kept.name, self.on, self.kept.revision + 1, by.at, by.actor)
        return FlagWrite(**msgspec.structs.asdict(write), flag=flag)


class ManualFlagSwitch(msgspec.Struct, frozen=True, kw_only=True):
    """Plans switches by operators.

    Attributes:
        flags: the flags of all backends, as last fetched.
        writer_of: the writer of a vertical's flags.
        killed: every definition that was killed here.
        recorder: receives failed switches.
    """

    flags: Callable[[], FlagSnapshot]
    writer_of: Callable[[Vertical], FlagWriter]
    killed: Callable[[], frozenset[Digest]]
    recorder: RolloutRecorder

    async def laid_out(
        self, asked: SwitchFlag, found: DefinitionMatch, rollouts: Sequence[SlotRollout], by: Actor
    ) -> FlagPlan:
        """Return the plan of a switch.

        Raises:
            TransitionRefused: no flag gates the definition, or an operator may not switch it on.
            RevisionConflict: the flag has another version than the request names.
            StoreUnavailable: the store that has the flags does not answer.
        """
        rollout, facts = found
        name, backend_of = flag_of(facts, asked.flag), self.flags().routes.backend_of
        backend, on = backend_of(facts.vertical), isinstance(asked, SwitchFlagOn)
        # Only definitions of the same backend: a flag of this name in another backend is independent.
        gated = definitions_using(rollouts, name, lambda vertical: backend_of(vertical) == backend)
        others = [each for each in gated if each.facts.digest != facts.digest]
        writer = self.writer_of(facts.vertical)
        if isinstance(writer, FlagStore):
            kept = await writer.kept(name)
            before = None if kept is None else FlagValue.ON if kept.on else FlagValue.OFF
        else:  # as last fetched
            kept, before = None, self.flags().value(name, facts.vertical)
        if on:
            refuse_on(facts, asked.flag, others, before)
            # The record may not have the kill yet, so its state alone would allow the switch.
            if facts.digest in self.killed():
                raise TransitionRefused(f"{facts.definition_id} was killed here; the kill is not recorded yet")
        else:
            refuse_off(name, asked.flag, others)
        version, wanted = kept.revision if kept else 0, FlagValue.ON if on else FlagValue.OFF
        # The operator decided on another state of the flag; it must be looked at again.
        if asked.expected_version not in {None, version}:
            raise RevisionConflict(
                f"the flag {name} has version {version}, not {asked.expected_version}",
                metadata={"version": str(version)},
            )
        told = FlagSwitched(
            kind=asked.flag,
            name=name,
            backend=backend,
            before=before or FlagValue.OFF,  # a flag that was never created is off
            after=wanted,
            version=version,
            affected=affected(gated, on=on),
        )
        detail = f"{asked.flag} flag {name}: {told.before.value} -> {wanted.value}"
        event = event_about(rollout, facts, RolloutEventKind.FLAG_SWITCHED, by, to=facts.ramp, detail=detail)
        # The rollout itself does not change: the state and the ramp are those of the record, whatever its flags say.
        change = Change(rollout, (), () if told.before is wanted else (event,))
        return FlagPlan(change=change, writer=writer, on=on, kept=kept, told=told)

    async def prepare(self, plan: FlagPlan, actor: str) -> tuple[str, ...]:
        """Switch a flag of an external backend; return what an operator must change instead, if it cannot be switched.

        Raises:
            StoreUnavailable: the flag could not be switched.
        """
        name = plan.told.name
        edit = plan.writer.edit_for(name, plan.on) if plan.change.events else ""
        # A stored flag is switched later, in the transaction of the step (see `written`).
        if edit or plan.kept is not None or not plan.change.events:
            return (edit,) if edit else ()
        try:
            async with asyncio.timeout(LONGEST_SWITCH):
                await plan.writer.switch(name, plan.on, actor)
        except Exception as error:
            self.recorder.anomaly("flag_not_switched", f"{name}: {type(error).__name__}")
            raise StoreUnavailable(
                f"the flag {name} could not be switched; `Kill` and `RampDown` need no flag",
                retry_after=timedelta(seconds=1),
            ) from error
        return ()
