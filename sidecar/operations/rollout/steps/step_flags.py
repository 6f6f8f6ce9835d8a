"""Switches the flags that a step needs, or returns the change that an operator must make first.

Flags are switched before the change is written. The ramp has not changed yet, so the switch exposes no user, and a step
that fails half-way can be repeated. Source: PF1-D-7, PF1-D-20, PF1-D-35.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from sidecar.core.errors import TransitionRefused
from sidecar.core.flag_states import FlagSnapshot, FlagValue
from sidecar.core.identifiers import Slot, Vertical
from sidecar.core.rollout.bucketing import WHOLE
from sidecar.core.rollout.facts import DefinitionFacts, FlagPair, SlotRollout
from sidecar.core.rollout.step import Change
from sidecar.core.rollout.view import sharing_flag
from sidecar.operations.rollout.store.flag_writes import FlagStore
from sidecar.policy.protocols import FlagWriter

WANTED: Final[Mapping[FlagPair, bool]] = {FlagPair.CREATED: False, FlagPair.ON: True}
"""Whether both flags must be on after a step that brings them to this stage. Steps to other stages switch no flag."""


class FlagSwitching(msgspec.Struct, frozen=True, kw_only=True):
    """Switches the flags of ramps.

    Attributes:
        writer_of: the writer of a vertical's backend.
        snapshot: all flags, as last fetched.
        shown: the rollouts of all slots, as binds see them.
    """

    writer_of: Callable[[Vertical], FlagWriter]
    snapshot: Callable[[], FlagSnapshot]
    shown: Callable[[], Mapping[Slot, SlotRollout]]

    def kill_flag_exists(self, facts: DefinitionFacts) -> bool:
        """Return whether the backend has the kill flag of a definition, as last fetched."""
        return facts.flag is not None and self.snapshot().exists(facts.flag, facts.vertical)

    async def check(self, change: Change, before: DefinitionFacts) -> None:
        """Refuse a step that would expose users whom a flag excludes and whom the gates of this step did not consider.

        Releasing flags exposes all users to the definitions that they gated. Switching a shared flag on ends a pause of
        the other definitions with that flag.

        Raises:
            TransitionRefused: a flag is off, or its value is unknown.
            StoreUnavailable: the store that has the flags does not answer.
        """
        after = change.rollout.definitions[before.digest]
        # Only these two stages expose users. Releasing a flag that is off would end a pause that an operator had made.
        if after.flags is before.flags or after.flags not in {FlagPair.RETIRED, FlagPair.ON}:
            return
        exposed = [before] if after.flags is FlagPair.RETIRED else self._others_switched_on(change, after)
        for name in (before.flag, before.cohort_flag):
            if name is None or not exposed:
                continue
            value, share = await self._value(name, before.vertical), self.snapshot().share(name, before.vertical)
            if value is not FlagValue.ON or share < WHOLE:
                # One definition as an example, with the first digits of its digest: `sha256:` takes seven characters.
                example = f"{exposed[0].definition_id} ({exposed[0].digest[7:15]})"
                # A flag that is on for a share still excludes the other users.
                state = value.value if value is not FlagValue.ON else f"on for {share / 100:g} % of users"
                raise TransitionRefused(
                    f"the flag {name} is {state}, which keeps {example} from its users, and this would give it"
                    " back to them; it can be done once both flags are seen on for everybody"
                )

    def _others_switched_on(self, change: Change, facts: DefinitionFacts) -> list[DefinitionFacts]:
        """Return the other definitions with the same flags whose rollout has switched them on."""
        return [each for each in self._sharing(change, facts) if each.flags is FlagPair.ON]

    def _sharing(self, change: Change, facts: DefinitionFacts) -> tuple[DefinitionFacts, ...]:
        """Return the other definitions, of any slot, that the kill flag of this one would kill too."""
        # With the slot as the change leaves it: the shown rollouts do not have the change yet.
        return sharing_flag({**self.shown(), change.rollout.slot: change.rollout}, facts)

    async def _value(self, name: str, vertical: Vertical) -> FlagValue:
        """Return a flag as stored; for an external backend, as last fetched."""
        writer = self.writer_of(vertical)
        # An external backend cannot be read here without waiting for it, so the value that was fetched last counts.
        if not isinstance(writer, FlagStore):
            return self.snapshot().value(name, vertical)
        kept = await writer.kept(name)
        return FlagValue.ON if kept is not None and kept.on else FlagValue.OFF

    async def prepare(self, change: Change, before: DefinitionFacts, actor: str) -> tuple[str, ...]:
        """Switch the flags as the change needs them; return the changes that an operator must make first, a text each.

        Raises:
            StoreUnavailable: a flag could not be switched. Earlier ones may be switched; the step can be repeated.
        """
        after = change.rollout.definitions[before.digest]
        if after.flags is before.flags or after.flags not in WANTED:
            return ()
        on, writer = WANTED[after.flags], self.writer_of(after.vertical)
        if not on and self._sharing(change, after):
            return ()  # another definition uses the flags: switching them off would kill it
        edits = []
        for name in (after.flag, after.cohort_flag):
            if name is None or (on and self.snapshot().value(name, after.vertical) is FlagValue.ON):
                continue
            edit = writer.edit_for(name, on)
            if not edit:
                await writer.switch(name, on, actor)
            elif on:  # for off, no edit is needed: a flag that does not exist counts as off
                edits.append(edit)
        return tuple(edits)

    async def unserved(self, change: Change, before: DefinitionFacts) -> tuple[str, ...]:
        """Return why a raise exposes no user yet, and what the end of the pause will expose. Source: TN-82.

        Raises:
            StoreUnavailable: the store that has the flags does not answer.
        """
        after = change.rollout.definitions[before.digest]
        raised, cohort = after.ramp > before.ramp, after.cohort_flag
        if not raised or cohort is None or before.flags is not FlagPair.ON or not before.gated:
            return ()  # the step itself switches the flags on, so this is not a pause
        value = await self._value(cohort, after.vertical)
        if value is FlagValue.ON:
            return ()
        why = "is off (a pause)" if value is FlagValue.OFF else "cannot be seen"
        return (
            f"no user is served by {after.definition_id}: its cohort flag {cohort} {why}; once it is on again,"
            f" {after.ramp / 100:g} % of users are served at once, and not {before.ramp / 100:g} % as before this step",
        )

    def confirmed(self, change: Change, before: DefinitionFacts) -> Change:
        """Return the change with the name of the backend that confirmed the flags, if it switches them on."""
        facts = change.rollout.definitions[before.digest]
        if not facts.confirmed_on or facts.confirmed_on == before.confirmed_on:
            return change
        backend = self.snapshot().routes.backend_of(facts.vertical)
        return msgspec.structs.replace(
            change, rollout=change.rollout.with_facts(msgspec.structs.replace(facts, confirmed_by=backend))
        )


def is_still_referenced(facts: DefinitionFacts) -> tuple[str, ...]:
    """Return what is left to remove from the configuration after flags were released. Source: TN-59."""
    if facts.flags is not FlagPair.RETIRED or facts.flag is None:
        return ()
    return (
        f"remove `enabled_via_flag: {facts.flag}` from the entry of {facts.definition_id}: it does nothing any more",
    )
