"""Decides which definition serves a user in a slot: a pure function over data in memory that takes a few microseconds.

Source: DESIGN section 8, TN-58, PF1-NFR-4.
"""

from enum import StrEnum, unique
from typing import Protocol

import msgspec

from sidecar.core.flag_states import FlagValue
from sidecar.core.identifiers import Digest, Vertical
from sidecar.core.rollout.bucketing import WHOLE, in_ramp
from sidecar.core.rollout.facts import DefinitionFacts, RolloutMode, SlotRollout
from sidecar.core.rollout.states import LifecycleState

CONTROL = "control"
TREATMENT = "treatment"


@unique
class CandidateVerdict(StrEnum):
    """Why a listed sub-agent is, or is not, on the surface. Source: DESIGN section 11."""

    CHOSEN = "chosen"
    FLAG_OFF = "flag_off"
    FLAG_STALE = "flag_stale"
    COHORT = "cohort"
    """The cohort flag is off, a flag is on for a share without this user, or the user is in the control arm."""
    RAMP = "ramp"
    STATE = "state"
    """The definition is not in `promote`, or no definition of the slot is active."""
    DEPRECATED = "deprecated"
    KILLED = "killed"
    NOT_LISTED = "not_listed"


class FlagReader(Protocol):
    """The flags, in memory."""

    @property
    def narrowed(self) -> bool:
        """Return whether any flag is on for a share of users only; if none is, shares are not evaluated."""
        ...

    def value(self, flag_name: str, vertical: Vertical | None = None) -> FlagValue:
        """Return the state of a flag."""
        ...

    def share(self, flag_name: str, vertical: Vertical | None = None) -> int:
        """Return the share of users, in basis points, for whom an enabled flag is on."""
        ...


class BindSubject(msgspec.Struct, frozen=True):
    """The user of a turn.

    Attributes:
        key: input of the bucketing: the principal; empty: outside every ramp.
        arm: of the experiment, as the caller states; empty: bucketing decides.
    """

    key: str
    arm: str = ""


class ServingDecision(msgspec.Struct, frozen=True):
    """The definition that serves a slot, and why the others do not.

    Attributes:
        digest: None: no definition serves.
        verdicts: of the active definition and of the target, as far as they were evaluated.
    """

    digest: Digest | None
    verdicts: tuple[tuple[Digest, CandidateVerdict], ...]


PASSES_ON = frozenset({CandidateVerdict.RAMP, CandidateVerdict.COHORT, CandidateVerdict.FLAG_OFF})
"""Verdicts on the active definition after which the target may serve.

`flag_stale` is not among them: while the flags are unknown, the safe choice is to serve no definition.
"""

UNDECIDED = frozenset({CandidateVerdict.CHOSEN, CandidateVerdict.FLAG_STALE})
"""Verdicts after which arm and ramp are still evaluated. A definition that arm or ramp excludes is no candidate,
whatever its flags say: an outage of the flags of a replacement then affects only the users whom it serves."""


def serving_definition(
    rollout: SlotRollout, asker: BindSubject, flags: FlagReader, deprecated: frozenset[Digest]
) -> ServingDecision:
    """Return the definition that serves a user.

    Args:
        rollout: of the slot.
        asker: the user.
        flags: as last fetched.
        deprecated: digests of deprecated entries.
    """
    # An empty slot serves no user: the target of a killed definition must not return by itself.
    if rollout.active is None:
        return ServingDecision(None, tuple((digest, _idle(facts)) for digest, facts in rollout.definitions.items()))
    active = verdict_on(rollout, rollout.definitions[rollout.active], asker, flags, deprecated)
    verdicts = [(rollout.active, active)]
    if active is CandidateVerdict.CHOSEN:
        return ServingDecision(rollout.active, tuple(verdicts))
    if active in PASSES_ON and rollout.target is not None and rollout.target != rollout.active:
        target = verdict_on(rollout, rollout.definitions[rollout.target], asker, flags, deprecated)
        verdicts.append((rollout.target, target))
        # The target serves within its own last ramp only: it may itself have been on the way to all users.
        if target is CandidateVerdict.CHOSEN:
            return ServingDecision(rollout.target, tuple(verdicts))
    return ServingDecision(None, tuple(verdicts))


def verdict_on(
    rollout: SlotRollout, facts: DefinitionFacts, asker: BindSubject, flags: FlagReader, deprecated: frozenset[Digest]
) -> CandidateVerdict:
    """Return the verdict on one definition. The same rule applies to the active definition and the target."""
    verdict = CandidateVerdict.CHOSEN
    # First: no other property may outweigh a kill.
    if facts.killed is not None:
        verdict = CandidateVerdict.KILLED
    elif facts.digest in deprecated:
        verdict = CandidateVerdict.DEPRECATED
    elif facts.state is not LifecycleState.PROMOTE:
        verdict = CandidateVerdict.STATE
    elif facts.gated:
        verdict = _flags_say(facts, flags, rollout.salt, asker.key)
    if verdict not in UNDECIDED:
        return verdict
    # In an experiment the active definition is the treatment. The control arm passes on to the target, which is the
    # definition before it.
    if rollout.mode is RolloutMode.EXPERIMENT and asker.arm == CONTROL and facts.digest == rollout.active:
        return CandidateVerdict.COHORT
    # The salt of the slot and nothing that a step changes: with another input, each step would assign the users anew,
    # and users would lose the sub-agent while its ramp rises.
    return verdict if in_ramp(rollout.salt, asker.key, facts.ramp) else CandidateVerdict.RAMP


def _flags_say(facts: DefinitionFacts, flags: FlagReader, salt: str, key: str) -> CandidateVerdict:
    kill, cohort = (flags.value(name, facts.vertical) for name in (str(facts.flag), str(facts.cohort_flag)))
    # Checked before "off": with one flag off and the other unknown, a definite verdict would let the target serve,
    # although the operators may have switched it off too.
    if FlagValue.UNREACHABLE in (kill, cohort):
        return CandidateVerdict.FLAG_STALE
    if kill is FlagValue.OFF:
        return CandidateVerdict.FLAG_OFF
    if cohort is FlagValue.OFF:
        return CandidateVerdict.COHORT
    # Most deployments never narrow a flag: the first condition saves the hash of the user on every bind.
    if flags.narrowed and not _inside(flag_share(facts, flags), salt, key):
        return CandidateVerdict.COHORT
    return CandidateVerdict.CHOSEN


def _inside(share: int, salt: str, key: str) -> bool:
    return share == WHOLE or in_ramp(salt, key, share)


def flag_share(facts: DefinitionFacts, flags: FlagReader) -> int:
    """Return the share of users, in basis points of its ramp's buckets, that both flags of a definition admit."""
    # Buckets are nested: the users inside the smaller share are inside the larger one as well.
    return min(flags.share(name, facts.vertical) for name in (str(facts.flag), str(facts.cohort_flag)))


def _idle(facts: DefinitionFacts) -> CandidateVerdict:
    return CandidateVerdict.KILLED if facts.killed is not None else CandidateVerdict.STATE
