"""Which flag of a definition an operator may switch, and the effect on the definitions that share it.

Switching off reduces exposure, so it is allowed wherever the flag has an effect. Switching on restores users, so it
must not exceed what the gates have passed. The ramp decides that: a flag that the ramp never switched on cannot be
switched on by an operator. Source: TN-56, TN-61, TN-82, PF1-D-7.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum, unique

import msgspec

from sidecar.core.errors import TransitionRefused
from sidecar.core.flag_states import FlagValue
from sidecar.core.identifiers import DefinitionId, Digest, Slot, Vertical
from sidecar.core.rollout.facts import DefinitionFacts, FlagPair, SlotRollout
from sidecar.core.rollout.states import LifecycleState


@unique
class FlagKind(StrEnum):
    """Which of the two flags. Source: TN-58."""

    KILL = "kill"
    COHORT = "cohort"


class FlaggedDefinition(msgspec.Struct, frozen=True):
    """A definition that a flag gates; `kind`: as which of its two flags."""

    slot: Slot
    facts: DefinitionFacts
    kind: FlagKind


class SwitchEffect(msgspec.Struct, frozen=True):
    """The effect of a switch on a definition, in words."""

    slot: Slot
    definition_id: DefinitionId
    digest: Digest
    state: LifecycleState
    words: str


class FlagSwitched(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of a manual switch on a flag.

    Attributes:
        backend: the name of its backend.
        after: equal to `before` if nothing was changed.
        version: the present version of the flag; 0: its backend has no versions.
        affected: all definitions with the flag.
    """

    kind: FlagKind
    name: str
    backend: str
    before: FlagValue
    after: FlagValue
    version: int
    affected: tuple[SwitchEffect, ...]


def flag_of(facts: DefinitionFacts, kind: FlagKind) -> str:
    """Return the name of a flag. Raises `TransitionRefused` if no flag gates the definition."""
    name = facts.flag if kind is FlagKind.KILL else facts.cohort_flag
    if name is None:
        raise TransitionRefused(f"{facts.definition_id} names no flag: none decides about it")
    # A switch without an effect would look like a pause that works.
    if not facts.gated:
        raise TransitionRefused(f"the flags of {facts.definition_id} are retired: they decide nothing any more")
    return name


def definitions_using(
    rollouts: Iterable[SlotRollout], name: str, is_there: Callable[[Vertical], bool]
) -> tuple[FlaggedDefinition, ...]:
    """Return every definition that a flag gates, slot after slot in the order of `rollouts`.

    Args:
        rollouts: all rollouts.
        name: of the flag.
        is_there: returns whether the flags of a vertical are in the backend of this flag.
    """
    found = [
        FlaggedDefinition(rollout.slot, facts, FlagKind.KILL if facts.flag == name else FlagKind.COHORT)
        for rollout in rollouts
        for facts in rollout.definitions.values()
        if facts.gated and name in {facts.flag, facts.cohort_flag} and is_there(facts.vertical)
    ]
    return tuple(found)


def refuse_off(name: str, kind: FlagKind, others: Iterable[FlaggedDefinition]) -> None:
    """Raise `TransitionRefused` if pausing one definition would kill another."""
    for each in others:
        # An operator who switches a kill flag off wants a kill; one who pauses does not.
        if kind is FlagKind.COHORT and each.kind is FlagKind.KILL:
            raise TransitionRefused(
                f"{name} is the kill flag of {each.facts.definition_id}: off, it kills that; set the ramp to 0 instead"
            )


def refuse_on(
    facts: DefinitionFacts, kind: FlagKind, others: Iterable[FlaggedDefinition], before: FlagValue | None
) -> None:
    """Raise `TransitionRefused` if an operator may not switch a flag on.

    Args:
        facts: the named definition.
        kind: which of its flags.
        others: the other definitions with that flag.
        before: the flag's value; None: the flag was never created.
    """
    name, flag = facts.definition_id, flag_of(facts, kind)
    if facts.state is LifecycleState.ROLLBACK:
        raise TransitionRefused(f"{name} is in rollback, which is permanent: no flag makes it serve again")
    if facts.state is not LifecycleState.PROMOTE or facts.flags is not FlagPair.ON:
        raise TransitionRefused(
            f"{name} is in {facts.state} and its ramp has not switched its flags on: a raise of the ramp does that,"
            " once its gates have passed"
        )
    if before is None:
        raise TransitionRefused(f"the flag {flag} does not exist: only promotion and the ramp create flags")
    # The edge from on to off is a kill, also if no sidecar has recorded it yet. Switching the flag on again must not
    # undo it.
    if kind is FlagKind.KILL and before is FlagValue.OFF and facts.confirmed_on == flag:
        raise TransitionRefused(
            f"the kill flag {flag} was switched off, which kills {name} permanently; activate another"
            " definition, or promote a new one"
        )
    for each in others:
        unseen = each.facts.state is LifecycleState.PROMOTE and each.facts.flags is not FlagPair.ON
        # The flag would expose users of the other definition without the gates of its own ramp. At 0 % it has no users.
        if unseen and each.facts.ramp:
            raise TransitionRefused(
                f"{flag} is a flag of {each.facts.definition_id} in {each.slot}, too, whose ramp has not switched it on"
            )


def affected(definitions: Iterable[FlaggedDefinition], *, on: bool) -> tuple[SwitchEffect, ...]:
    """Return the effect of a switch on each definition with the flag."""
    return tuple(
        SwitchEffect(each.slot, each.facts.definition_id, each.facts.digest, each.facts.state, _words(each, on=on))
        for each in definitions
    )


def _words(each: FlaggedDefinition, *, on: bool) -> str:
    facts = each.facts
    if not facts.killable:
        return f"nothing: it is in {facts.state}"
    if on:
        return f"it serves again as far as its ramp of {facts.ramp / 100:g} % goes"
    if each.kind is FlagKind.COHORT:
        return f"it serves no user until the flag is on again; state and ramp ({facts.ramp / 100:g} %) stay"
    # Only an edge from on to off kills. Without a confirmed "on" there is no edge.
    if facts.confirmed_on == facts.flag:
        return "it serves no user, and switching the flag off kills it permanently"
    return "it serves no user; it is killed only if a sidecar has seen the flag on: `sidecar subagent kill` makes sure"
