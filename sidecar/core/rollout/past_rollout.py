"""A rollout at a time in the past, derived from the audit. Source: PF1-D-50, PF1-FR-10.

Values that the audit lacks (names of flags, verticals) come from the present rollout, although a minor revision may
have changed them since. A salt begins as the id of the slot. A rollout begins in mode `experiment`.
"""

from collections.abc import Iterable

import msgspec

from sidecar.core.identifiers import Commit, Digest, Vertical
from sidecar.core.rollout.bucketing import WHOLE
from sidecar.core.rollout.events import RENEWED_SALT, RolloutEvent, RolloutEventKind, TransitionEvent
from sidecar.core.rollout.facts import DefinitionFacts, FlagPair, RolloutMode, SlotRollout, Tombstone
from sidecar.core.rollout.states import LifecycleState

PAIRS = {
    RolloutEventKind.FLAGS_NAMED: FlagPair.NAMED,
    RolloutEventKind.FLAGS_CREATED: FlagPair.CREATED,
    RolloutEventKind.FLAGS_ON: FlagPair.ON,
    RolloutEventKind.FLAGS_RETIRED: FlagPair.RETIRED,
}


def as_of(
    present: SlotRollout, rows: Iterable[TransitionEvent | RolloutEvent], beginning: SlotRollout | None = None
) -> SlotRollout:
    """Return the rollout after `rows`.

    Args:
        present: the present rollout.
        rows: of its slot, oldest first, up to the requested time.
        beginning: the rollout before the first row; None: there was none.
    """
    began = RolloutMode.EXPERIMENT
    then = beginning or SlotRollout(slot=present.slot, mode=began, salt=present.slot)
    for row in rows:
        # The definition is unknown at its first row, or at any row if retention has removed the earlier ones.
        facts = then.definitions.get(row.digest) or _unheard_of(present, row)
        then = _moved(then, facts, row) if isinstance(row, TransitionEvent) else _happened(then, facts, row)
    return then


def _unheard_of(present: SlotRollout, row: TransitionEvent | RolloutEvent) -> DefinitionFacts:
    """Return a definition in its first state.

    Values that the audit lacks come from the present definition with the row's digest, or, if that was revised since,
    from one with the row's id.
    """
    known = present.definitions.get(row.digest) or next(iter(present.of_id(row.subagent_id)), None)
    flag = known.flag if known else None
    return DefinitionFacts(
        digest=row.digest,
        definition_id=row.subagent_id,
        commit=known.commit if known else Commit(""),
        vertical=known.vertical if known else Vertical(""),
        flag=flag,
        flags=FlagPair.NONE if flag is None else FlagPair.NAMED,
    )


def _moved(then: SlotRollout, facts: DefinitionFacts, row: TransitionEvent) -> SlotRollout:
    moved = msgspec.structs.replace(facts, state=row.target_state)
    if row.target_state is not LifecycleState.ROLLBACK:
        return then.with_facts(moved)
    after = then.with_facts(msgspec.structs.replace(moved, ramp=0))
    # A target that became active has an event of its own.
    return msgspec.structs.replace(after, active=None) if then.active == row.digest else after


def _happened(then: SlotRollout, facts: DefinitionFacts, row: RolloutEvent) -> SlotRollout:
    change, after = msgspec.structs.replace, then
    match row.what:
        case RolloutEventKind.SEEN if row.after == WHOLE:  # ungated, in an empty slot: it serves immediately
            serving = change(facts, state=LifecycleState.PROMOTE, ramp=WHOLE, activated_at=row.at)
            after = change(then.with_facts(serving), active=row.digest)
        case RolloutEventKind.SEEN:
            after = then.with_facts(facts)
        case RolloutEventKind.REVISED:
            after = _revised(then, facts, Digest(row.detail))
        case RolloutEventKind.CONFIGURED:
            after = change(then, mode=RolloutMode(row.mode) if row.mode else then.mode)
        case RolloutEventKind.RAMP_SET | RolloutEventKind.RAMPED_DOWN:
            after = then.with_facts(change(facts, ramp=row.after))
        case RolloutEventKind.ACTIVATED:
            # Only the first activation records a target; a rollback or `activate` keeps it.
            if facts.activated_at is None:
                facts = change(facts, activated_at=row.at, target=then.active, target_recorded=True)
            # The detail has nothing but the salt: the answers of gates are added only to events of other kinds.
            salt = row.detail.removeprefix(RENEWED_SALT) if row.detail.startswith(RENEWED_SALT) else then.salt
            after = change(then.with_facts(facts), active=row.digest, salt=salt)
        case RolloutEventKind.KILLED:
            dead = then.with_facts(change(facts, killed=Tombstone(row.at, row.actor, row.reason)))
            after = change(dead, active=None if then.active == row.digest else then.active)
        case what if what in PAIRS:
            after = then.with_facts(change(facts, flags=PAIRS[what]))
        case _:  # refused, held, acknowledged, overridden: the served users do not change
            pass
    return after


def _revised(then: SlotRollout, fresh: DefinitionFacts, before: Digest) -> SlotRollout:
    # If retention has removed the rows of the former content, the revision begins in the first state.
    known = then.definitions.get(before, fresh)
    revised = msgspec.structs.replace(known, digest=fresh.digest, commit=fresh.commit)
    others = {
        digest: msgspec.structs.replace(each, target=fresh.digest) if each.target == before else each
        for digest, each in then.definitions.items()
        if digest != before
    }
    active = fresh.digest if then.active == before else then.active
    return msgspec.structs.replace(then, definitions={**others, fresh.digest: revised}, active=active)
