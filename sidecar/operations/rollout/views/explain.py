"""Explains why a user gets a sub-agent or not, by the rule that binds use, now or at a time in the audit.

Source: PF1-D-50, PF1-D-66, DESIGN sections 4 and 8.
"""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from sidecar.core.flag_states import FlagValue
from sidecar.core.identifiers import Digest, Vertical
from sidecar.core.rollout.bucketing import WHOLE, bucket_of
from sidecar.core.rollout.events import RolloutEvent, RolloutEventKind
from sidecar.core.rollout.facts import DefinitionFacts, FlagPair, SlotRollout, Tombstone
from sidecar.core.rollout.past_rollout import as_of
from sidecar.core.rollout.serving import BindSubject, CandidateVerdict, FlagReader, flag_share, serving_definition
from sidecar.core.rollout.states import LifecycleState
from sidecar.operations.ports import Clock, Definitions
from sidecar.operations.rollout.audit.audit_log import past_of
from sidecar.operations.rollout.store.ports import RolloutStore
from sidecar.operations.rollout.views.rollout_reading import ReadsFlagBackends, current_cards, find_rollout
from sidecar.operations.rollout.views.snapshot import RolloutViews

# What an explanation of the past assumes, because the audit does not record it.
AS_NOW = (
    "the names of the flags and the list of deprecated definitions are the current ones",
    "each flag had the value that the rollout last set; changes in the backend, and its outages, are not recorded",
)


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """Why one definition serves a user or not.

    Attributes:
        ramp: in basis points.
        flags: name and value of each flag of the definition.
        words: the reason as a sentence for an operator.
    """

    digest: Digest
    definition_id: str
    verdict: CandidateVerdict
    state: LifecycleState
    ramp: int
    flags: tuple[tuple[str, FlagValue], ...]
    killed: bool
    words: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a user gets a definition, or none.

    Attributes:
        served: the definition that serves the user; None: no definition does.
        key: the user; empty if none was named.
        bucket: of the user, from which the ramp decides; None without a user.
        verdicts: the result for each definition of the slot.
        at: the time that the explanation is about.
        assumptions: what is unknown about the past, one sentence each.
    """

    slot: str
    served: Digest | None
    key: str
    salt: str
    bucket: int | None
    verdicts: tuple[Explained, ...]
    at: datetime
    assumptions: tuple[str, ...] = ()


class HistoricalFlags:
    """The flags as a rollout had switched them."""

    # An assumption: shares of users are not recorded, so a flag that was on counts as on for all.
    narrowed = False

    def __init__(self, rollout: SlotRollout) -> None:
        """Collect the names of those that were on."""
        switched = [facts for facts in rollout.definitions.values() if facts.flags is FlagPair.ON]
        self._on = [name for facts in switched for name in (facts.flag, facts.cohort_flag)]

    def value(self, flag_name: str, vertical: Vertical | None = None) -> FlagValue:
        """Return the past state of a flag, for any vertical."""
        # Never `UNREACHABLE`: past outages are not recorded, and the answer says so (`AS_NOW`).
        return FlagValue.ON if flag_name in self._on else FlagValue.OFF

    def share(self, flag_name: str, vertical: Vertical | None = None) -> int:
        """Return 100 % of the users, because the shares of flags are not recorded."""
        return WHOLE


class Explain(msgspec.Struct, frozen=True, kw_only=True):
    """The operation behind `Explain`. Changes nothing."""

    store: RolloutStore
    views: RolloutViews
    definitions: Definitions
    flags: ReadsFlagBackends
    clock: Clock

    async def __call__(self, name: str, subject: BindSubject, at: datetime | None) -> Explanation:
        """Explain which definition of a slot serves a user, and why.

        Args:
            name: slot, or id of a definition in one.
            subject: the user.
            at: None: as a bind here would decide now.

        Raises:
            UnknownDefinition: the name is unknown, or was unknown at that time.
            StoreUnavailable: the store did not answer.
        """
        present = await find_rollout(self.store, name)
        if at is None:
            return self._explanation(self._as_binds_see(present), subject, self.flags.current(), None)
        rollout_then, assumptions = await self._past(present, at)
        explanation = self._explanation(rollout_then, subject, HistoricalFlags(rollout_then), at)
        return msgspec.structs.replace(explanation, assumptions=assumptions)

    def _as_binds_see(self, present: SlotRollout) -> SlotRollout:
        """Return the rollout that binds here read, including kills that are not recorded yet."""
        # A kill takes effect before it is recorded. The record alone would say that the user still gets the definition.
        view = self.views.current()
        rollout = view.slots.get(present.slot, present)
        # Iterates over the definitions of the first value: `with_facts` returns a changed copy.
        for digest, facts in rollout.definitions.items():
            if digest in view.killed and facts.killed is None:
                stone = Tombstone(self.clock.now(), "", "killed here; on record soon")
                rollout = rollout.with_facts(msgspec.structs.replace(facts, killed=stone))
        return rollout

    async def _past(self, present: SlotRollout, at: datetime) -> tuple[SlotRollout, tuple[str, ...]]:
        """Return a slot's rollout at a time, from its audit, and what is unknown about it."""
        past = await past_of(self.store, present.slot)
        # Rows are selected by the time of the event and not by their number, which shows the order of writing: a kill
        # may be written long after it took effect.
        bodies = [row.body for row in past.rows if row.body.at <= at]
        rollout_then = as_of(present, bodies, past.beginning)
        first = bodies[0] if bodies else None
        begins_with_seen = isinstance(first, RolloutEvent) and first.what is RolloutEventKind.SEEN
        # If retention has removed no rows (`known_from` is None), a complete audit begins with the event that a
        # definition was first seen.
        complete = begins_with_seen if past.known_from is None else at >= past.known_from
        gap = () if complete else (f"the audit of {present.slot} does not reach back to its beginning",)
        return rollout_then, (*gap, *AS_NOW)

    def _explanation(
        self, rollout: SlotRollout, subject: BindSubject, flags: FlagReader, at: datetime | None
    ) -> Explanation:
        cards = current_cards(self.definitions)
        deprecated = frozenset(digest for digest, card in cards.items() if card.definition.deprecated)
        served = serving_definition(rollout, subject, flags, deprecated)
        bucket = bucket_of(rollout.salt, subject.key) if subject.key else None
        explained = [
            _explain_definition(rollout.definitions[digest], verdict, bucket, flags)
            for digest, verdict in served.verdicts
        ]
        return Explanation(
            slot=rollout.slot,
            served=served.digest,
            key=subject.key,
            salt=rollout.salt,
            bucket=bucket,
            verdicts=tuple(explained),
            at=at or self.clock.now(),
        )


def _explain_definition(
    facts: DefinitionFacts, verdict: CandidateVerdict, bucket: int | None, flags: FlagReader
) -> Explained:
    """Return the explanation of one definition's verdict."""
    names = [name for name in (facts.flag, facts.cohort_flag) if name is not None]
    return Explained(
        digest=facts.digest,
        definition_id=facts.definition_id,
        verdict=verdict,
        state=facts.state,
        ramp=facts.ramp,
        flags=tuple((name, flags.value(name, facts.vertical)) for name in names),
        killed=facts.killed is not None,
        words=_words(facts, verdict, bucket, _reason_in_flags(facts, flags, bucket) if facts.gated else ""),
    )


def _reason_in_flags(facts: DefinitionFacts, flags: FlagReader, bucket: int | None) -> str:
    """Return why a flag admits only some users, or not this user; empty: the flags are not the reason."""
    if flags.value(str(facts.cohort_flag), facts.vertical) is FlagValue.OFF:
        return f"its flag {facts.cohort_flag} is off: no user is exposed"
    share = flag_share(facts, flags)
    if bucket is None or bucket < share:
        return ""
    return f"bucket {bucket} is outside the {share / 100:g} % of users for whom its flags are on"


def _words(facts: DefinitionFacts, verdict: CandidateVerdict, bucket: int | None, reason_in_flags: str) -> str:
    """Return the reason of a verdict as a sentence for an operator."""
    ramp = f"the ramp of {facts.ramp / 100:g} %"
    if verdict is CandidateVerdict.RAMP:
        return f"bucket {bucket} is outside {ramp}" if bucket is not None else f"a user without an id is outside {ramp}"
    if verdict is CandidateVerdict.CHOSEN:
        return f"bucket {bucket} is inside {ramp}"
    if verdict is CandidateVerdict.STATE and facts.state is LifecycleState.PROMOTE:
        return "it is in promote, and the slot is empty until an operator activates a definition"
    if verdict is CandidateVerdict.STATE and facts.flag is None and facts.state is not LifecycleState.ROLLBACK:
        return f"it is in {facts.state} and names no flag, which promotion needs; only promote is served"
    if verdict is CandidateVerdict.COHORT:
        return reason_in_flags or "the user is in the control arm, and the rollout is an experiment"
    return WORDS.get(verdict, "").format(state=facts.state, flag=facts.flag, cohort=facts.cohort_flag)


WORDS: Mapping[CandidateVerdict, str] = {
    CandidateVerdict.STATE: "it is in {state}; only promote is served",
    CandidateVerdict.KILLED: "it was killed",
    CandidateVerdict.DEPRECATED: "its entry says that it is deprecated",
    CandidateVerdict.FLAG_OFF: "its flag {flag} is off",
    CandidateVerdict.FLAG_STALE: "its flags {flag} and {cohort} could not be confirmed recently enough",
}
