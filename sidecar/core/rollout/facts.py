"""The rollout of one slot: one value with one revision, compared and set as a whole.

Three properties of a definition are independent of each other: its lifecycle state, its ramp, and whether it was
killed. The active definition of a slot and its recorded rollback target are properties of the slot (PF1-D-29).
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum, unique
from typing import Final

import msgspec

from sidecar.core.identifiers import Commit, DefinitionId, Digest, Slot, Vertical
from sidecar.core.rollout.bucketing import WHOLE
from sidecar.core.rollout.decommission_facts import Decommission
from sidecar.core.rollout.states import LifecycleState

SALT_DIGITS: Final = 16
"""Hex digits of a digest in a salt."""


@unique
class RolloutMode(StrEnum):
    """Whether the control arm of an experiment is kept from the active definition: in `experiment` it is (TN-72)."""

    # The values are stored. Operators may also write `cohort` for `experiment`: see `rollout_config.MODES`.

    EXPERIMENT = "experiment"
    FULL = "full"


@unique
class FlagPair(StrEnum):
    """The stage of the two flags of a definition. Source: PF1-D-35, PF1-D-7, TN-59."""

    NONE = "none"
    """The definition names no flag: it is not gated."""
    NAMED = "named"
    """Named by the definition; not created yet."""
    CREATED = "created"
    """Created off, at `test` to `promote`."""
    ON = "on"
    """Switched on after the first `pre_ramp` passed."""
    RETIRED = "retired"
    """An operator retired the flags at 100 %; they have no effect any more, and the definition counts as always on."""


class Tombstone(msgspec.Struct, frozen=True):
    """A kill. It is permanent, because `rollback` is terminal. Source: PF1-FR-9d, TN-61."""

    killed_at: datetime
    killed_by: str
    reason: str


class Breach(msgspec.Struct, frozen=True):
    """An automatic ramp-down that is not acknowledged yet, or after which `pre_ramp` has not passed.

    Source: PF1-D-31.
    """

    breach_id: str
    at: datetime
    reason: str
    acknowledged_by: str = ""


class Override(msgspec.Struct, frozen=True):
    """An operator's permission for one `fail` of one step; never for an outage or a policy's denial.

    Source: PF1-FR-4c.

    Attributes:
        from_ramp, to_ramp: the ramps before and after the step, in basis points.
    """

    gate: str
    from_ramp: int
    to_ramp: int
    by: str
    reason: str
    expires_at: datetime


class DefinitionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The rollout of one content of a definition, which its digest identifies.

    Attributes:
        shape: digest of model, tools and blocks; a different shape is a major change (PF1-FR-12a).
        ramp: its own ramp in basis points, also while it is not active (PF1-D-28, TN-65).
        activated_at: when it was first active; None: never.
        flag: kill flag of the definition; the cohort flag has the same name with the suffix `_cohort`.
        flag_dropped: the entry no longer names `flag`, which gates the definition until its flags are retired.
        confirmed_on: name of the kill flag that a backend confirmed to be on; empty: none yet. If the flag is off
            later, that is an edge, even if no sidecar observed the change.
        confirmed_by: name of that backend; empty: not known. A value from another backend is no edge.
        confirmed_at: when it was switched on; None: with the first activation.
        target: the definition that a rollback restores, recorded when this one became active; None with
            `target_recorded`: explicitly none (PF1-FR-7a, TN-63).
        decommission_began_at: None: not begun.
        decommission: progress of the decommission; present exactly if it has begun.
    """

    digest: Digest
    definition_id: DefinitionId
    commit: Commit
    vertical: Vertical
    shape: str = ""
    state: LifecycleState = LifecycleState.DEV
    ramp: int = 0
    activated_at: datetime | None = None
    flag: str | None = None
    flags: FlagPair = FlagPair.NONE
    flag_dropped: bool = False
    confirmed_on: str = ""
    confirmed_by: str = ""
    confirmed_at: datetime | None = None
    killed: Tombstone | None = None
    breach: Breach | None = None
    target: Digest | None = None
    target_recorded: bool = False
    overrides: tuple[Override, ...] = ()
    decommission_began_at: datetime | None = None
    decommission: Decommission | None = None

    @property
    def cohort_flag(self) -> str | None:
        """The flag that controls the cohort. Source: TN-58."""
        return None if self.flag is None else f"{self.flag}_cohort"

    @property
    def gated(self) -> bool:
        """Return whether its flags have an effect. Source: PF1-D-75, TN-59."""
        return self.flag is not None and self.flags is not FlagPair.RETIRED

    @property
    def withdrawn(self) -> bool:
        """Return whether it is in `rollback`, so that flags created by the sidecar have no effect any more."""
        return self.state is LifecycleState.ROLLBACK and self.flags in {FlagPair.CREATED, FlagPair.ON}

    @property
    def killable(self) -> bool:
        """Return whether switching its kill flag off kills it. Source: TN-56, TN-57.

        Flags that the sidecar created count. In `promote`, flags that a revision named count regardless of their
        creator.
        """
        # A definition that is being decommissioned is in `rollback` already, so no kill is left to make.
        if self.flag is None or self.decommission_began_at is not None:
            return False
        made = self.flags in {FlagPair.CREATED, FlagPair.ON}
        if self.state is LifecycleState.PROMOTE:
            return made or self.flags is FlagPair.NAMED
        # In `test` a flag that only a revision named was never on, so its being off says nothing.
        return made and self.state is LifecycleState.TEST


class SlotRollout(msgspec.Struct, frozen=True, kw_only=True):
    """The rollout of one slot.

    Attributes:
        revision: grows by one with each change; writes compare it.
        definitions: by digest; every definition that was ever loaded for the slot and is not forgotten.
        active: at most one, in `promote`; None: no user is served. Source: TN-62.
        curve: declared steps in basis points, ascending; empty: none declared, any step is allowed (PF1-D-40).
        salt: input of the buckets of its users; `salt_of_first_step` says when it changes.
    """

    slot: Slot
    revision: int = 0
    # msgspec makes a new dictionary for each struct; the default is not shared.
    definitions: Mapping[Digest, DefinitionFacts] = {}
    active: Digest | None = None
    mode: RolloutMode = RolloutMode.EXPERIMENT
    curve: tuple[int, ...] = ()
    salt: str = ""

    @property
    def target(self) -> Digest | None:
        """The definition that serves users outside the ramp, and that a rollback restores."""
        # An empty slot has no target: after a kill, the former target must not return by itself.
        return None if self.active is None else self.definitions[self.active].target

    def salt_of_first_step(self, digest: Digest) -> str:
        """Return the salt once `digest` is active for the first time. A new salt lets other users be the first.

        The salt stays for the first definition that is ever active in the slot. It also stays while another definition
        has a ramp between 0 % and 100 % to return to, because that definition's users would change.
        """
        others = [each for each in self.definitions.values() if each.digest != digest and each.activated_at is not None]
        # At 0 % or 100 % a new salt changes no user's membership.
        partial = any(each.state is LifecycleState.PROMOTE and 0 < each.ramp < WHOLE for each in others)
        # Derived, not random: a repeated step has the same salt. `rpartition` removes the prefix `sha256:`.
        return self.salt if partial or not others else f"{self.slot}/{digest.rpartition(':')[2][:SALT_DIGITS]}"

    def with_facts(self, facts: DefinitionFacts) -> "SlotRollout":
        """Return the rollout with one definition's facts replaced or added; the revision stays."""
        # A new digest is added at the end, a known one keeps its place: readers rely on this order, the newest last.
        return msgspec.structs.replace(self, definitions={**self.definitions, facts.digest: facts})

    def of_id(self, definition_id: DefinitionId) -> tuple[DefinitionFacts, ...]:
        """Return every digest of one definition id."""
        return tuple(each for each in self.definitions.values() if each.definition_id == definition_id)
