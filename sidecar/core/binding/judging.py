"""Decides who serves each slot for one user, from memory. Source: DESIGN section 8, TN-51, TN-58, TN-62."""

from collections.abc import Callable

import msgspec

from sidecar.core.binding.flags import FlagValue
from sidecar.core.binding.surface import Candidate, CandidateVerdict
from sidecar.core.definitions.card import AgentDefinition, Card, Catalogue
from sidecar.core.identifiers import Digest, Slot
from sidecar.core.rollout.facts import SlotRollout
from sidecar.core.rollout.serving import Asker, ReadsFlags, served_by
from sidecar.core.rollout.view import RolloutView

CardOf = Callable[[Digest], Card | None]


Flags = ReadsFlags


class Judged(msgspec.Struct, frozen=True):
    """Who serves a slot for a user, and the verdict on everybody who was looked at.

    Attributes:
        digest: None: nobody.
    """

    slot: Slot
    digest: Digest | None
    candidates: tuple[Candidate, ...]


def judge(slot: Slot, catalogue: Catalogue, flags: Flags, view: RolloutView, asker: Asker) -> Judged:
    """Return who serves `slot` for `asker`."""
    if view.follows_flags:
        return _by_flags(slot, catalogue, flags)
    rollout = view.slots.get(slot)
    if rollout is None:
        listed = catalogue.slots.get(slot, ())
        verdict = CandidateVerdict.STATE if listed else CandidateVerdict.NOT_LISTED
        return Judged(slot, None, tuple(Candidate(slot, each, verdict) for each in listed or (None,)))
    return _by_rollout(slot, catalogue, (rollout, view.killed), flags, asker)


def _by_rollout(
    slot: Slot, catalogue: Catalogue, rollout: tuple[SlotRollout, frozenset[Digest]], flags: Flags, asker: Asker
) -> Judged:
    facts, killed = rollout
    deprecated = frozenset(
        card.digest
        for definition_id in catalogue.slots.get(slot, ())
        if (card := catalogue.cards[definition_id]).definition.deprecated
    )
    if facts.active in killed:  # killed here, on record soon: nobody takes its place
        name = facts.definitions[facts.active].definition_id if facts.active else None
        return Judged(slot, None, (Candidate(slot, name, CandidateVerdict.KILLED),))
    served = served_by(facts, asker, flags, deprecated | killed)
    candidates = tuple(
        Candidate(slot, facts.definitions[digest].definition_id, verdict) for digest, verdict in served.verdicts
    )
    return Judged(slot, served.digest, candidates or (Candidate(slot, None, CandidateVerdict.NOT_LISTED),))


def _by_flags(slot: Slot, catalogue: Catalogue, flags: Flags) -> Judged:
    """Return who serves a slot where there are no rollouts: an entry follows its two flags."""
    fillers = [catalogue.cards[definition_id] for definition_id in catalogue.slots.get(slot, ())]
    if not fillers:
        return Judged(slot, None, (Candidate(slot, None, CandidateVerdict.NOT_LISTED),))
    serving: Digest | None = None
    candidates = []
    for card in fillers:
        verdict = _flags_say(card.definition, flags, alone=len(fillers) == 1)
        if verdict is CandidateVerdict.CHOSEN and serving is not None:
            verdict = CandidateVerdict.STATE  # at most one definition is active in a slot (TN-62)
        if verdict is CandidateVerdict.CHOSEN:
            serving = card.digest
        candidates.append(Candidate(slot, card.definition.id, verdict))
    return Judged(slot, serving, tuple(candidates))


def _flags_say(definition: AgentDefinition, flags: Flags, *, alone: bool) -> CandidateVerdict:
    if definition.deprecated:
        return CandidateVerdict.DEPRECATED
    kill, cohort = definition.enabled_via_flag, definition.cohort_flag
    if kill is None or cohort is None:
        return CandidateVerdict.CHOSEN if alone else CandidateVerdict.STATE
    values = (flags.value(kill, definition.vertical), flags.value(cohort, definition.vertical))
    if FlagValue.UNREACHABLE in values:
        return CandidateVerdict.FLAG_STALE
    if values[0] is not FlagValue.ON:
        return CandidateVerdict.FLAG_OFF
    return CandidateVerdict.CHOSEN if values[1] is FlagValue.ON else CandidateVerdict.COHORT
