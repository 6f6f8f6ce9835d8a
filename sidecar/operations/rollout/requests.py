"""Requests of operators, automation and breakers as plain values; `rpc/translate` creates them from messages."""

from datetime import datetime
from hashlib import sha256
from typing import Any

import msgspec

from sidecar.core.identifiers import DefinitionId, Slot
from sidecar.core.rollout.decommission_facts import Choice, CleanupStep, CodeStatus, Decommission, Subject
from sidecar.core.rollout.events import GateResult
from sidecar.core.rollout.facts import RolloutMode
from sidecar.core.rollout.manual_flags import FlagKind, FlagSwitched
from sidecar.core.rollout.rollback import Successor
from sidecar.policy.lifecycle import Step

WHO = frozenset({"actor_key", "actor_role"})
"""Fields that say who asks, which is no part of what is asked."""
HELD = "/held"
"""Follows the id of a request that acts although that id was used for another one."""


class StepRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that every step request has.

    Attributes:
        slot: the rollout's slot; empty: the slot that the definition fills.
        definition_id: which definition of the slot; its newest digest, unless `digest` names another.
        expected_revision: of the slot's rollout, as read before; None for steps in the safe direction.
        request_id: made by the client; a repeated id with the same contents gets the same answer.
        reason: for the audit; not empty.
        dry_run: ask policies and gates, show what would happen, write nothing.
        actor_key: what authenticates the actor: the id of an operator's key, or the URL of an issuer.
        actor_role: the actor's role; empty: the request came without a token. Key and role are taken from the token,
            never from a field of a request.
    """

    definition_id: DefinitionId
    request_id: str
    reason: str
    slot: Slot = Slot("")
    digest: str = ""
    expected_revision: int | None = None
    dry_run: bool = False
    actor_key: str = ""
    actor_role: str = ""

    @property
    def fingerprint(self) -> str:
        """What two requests with the same contents share; the kind of step is part of it, and who asks is not."""
        contents = (type(self).__name__, _contents(msgspec.structs.replace(self, request_id="")))
        return sha256(msgspec.json.encode(contents)).hexdigest()

    @property
    def sought(self) -> str:
        """What exactly is wanted of the definition: what requests of two people for one step have in common."""
        return type(self).__name__

    @property
    def names_revision(self) -> bool:
        """Whether the request is about the state that was read before, and about no other one."""
        return self.expected_revision is not None


def _contents(asked: StepRequest) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(asked).items() if name not in WHO}


class Transition(StepRequest, frozen=True, kw_only=True):
    """`dev` to `test`, or `test` to `promote`."""

    step: Step

    @property
    def sought(self) -> str:
        """Name the step."""
        return self.step


class SetRamp(StepRequest, frozen=True, kw_only=True):
    """Set a ramp, in basis points."""

    to: int

    @property
    def sought(self) -> str:
        """Name the ramp."""
        return f"{Step.SET_RAMP} {self.to}"


class Configure(StepRequest, frozen=True, kw_only=True):
    """Declare mode and ramp curve of a slot; the curve in basis points."""

    mode: RolloutMode
    curve: tuple[int, ...] = ()

    @property
    def sought(self) -> str:
        """Name mode and curve."""
        return f"{Step.CONFIGURE} {self.mode} {' '.join(map(str, self.curve))}"


class RampDown(StepRequest, frozen=True, kw_only=True):
    """Set a ramp to 0 after a safety breach; never waits for anything."""

    breach_id: str


class AcknowledgeBreach(StepRequest, frozen=True, kw_only=True):
    """Take note of a breach."""

    breach_id: str


class OverrideGate(StepRequest, frozen=True, kw_only=True):
    """Let one `fail` of one gate pass for one step, until it expires."""

    gate: str
    to: int
    expires_at: datetime

    @property
    def sought(self) -> str:
        """Name gate and ramp; until when it holds is for the one whose request is taken."""
        return f"{Step.OVERRIDE_GATE} {self.gate} {self.to}"


class RollBack(StepRequest, frozen=True, kw_only=True):
    """Move a definition to `rollback`, and its recorded target back into its place.

    Attributes:
        to: the definition that serves instead of that target; None: the target.
    """

    to: Successor | None = None


class Activate(StepRequest, frozen=True, kw_only=True):
    """Put a definition that is still in `promote` back into an empty slot."""


class Kill(StepRequest, frozen=True, kw_only=True):
    """Take a definition off every surface at once."""

    @property
    def sought(self) -> str:
        """Nothing: no policy asks who else wanted a kill."""
        return ""


class RetireFlags(StepRequest, frozen=True, kw_only=True):
    """Release the two flags of a definition that serves all users."""


class SwitchFlag(StepRequest, frozen=True, kw_only=True):
    """Switch one flag by hand.

    Attributes:
        flag: which of the two.
        expected_version: of the flag, as read before; None: whichever it has.
    """

    flag: FlagKind
    expected_version: int | None = None

    @property
    def sought(self) -> str:
        """Name flag and direction."""
        return f"{type(self).__name__} {self.flag}"

    @property
    def names_revision(self) -> bool:
        """Whether the rollout, or the flag, has to be as it was read before."""
        return (self.expected_revision, self.expected_version) != (None, None)


class SwitchFlagOn(SwitchFlag, frozen=True, kw_only=True):
    """Switch a flag on again, within what the ramp has reached."""


class SwitchFlagOff(SwitchFlag, frozen=True, kw_only=True):
    """Switch a flag off: a pause, or a kill."""


class DecommissionRequest(StepRequest, frozen=True, kw_only=True):
    """Anything that is asked of the decommission of a definition; the definition stays in `rollback`."""


class BeginDecommission(DecommissionRequest, frozen=True, kw_only=True):
    """Begin to take a definition away for good: the window runs from now."""

    @property
    def sought(self) -> str:
        """Name it."""
        return f"{Step.DECOMMISSION} begin"


class TakeDecommissionStep(DecommissionRequest, frozen=True, kw_only=True):
    """One of the five steps has been done in the configuration repository.

    Attributes:
        code: of step 3: what became of the modules; None for the others.
        confirmed: the operator's word for what no sidecar can see.
    """

    step: CleanupStep
    code: CodeStatus | None = None
    confirmed: str = ""

    @property
    def sought(self) -> str:
        """Name the step; in which words it is confirmed is for the one whose request is taken."""
        return " ".join(filter(None, (Step.DECOMMISSION, self.step, self.code)))


class DecideDecommission(DecommissionRequest, frozen=True, kw_only=True):
    """Decide what becomes of the eval suite, or of the tools."""

    matter: Subject
    choice: Choice

    @property
    def sought(self) -> str:
        """Name the decision."""
        return f"{Step.DECOMMISSION} {self.matter} {self.choice}"


class UndoDecommission(DecommissionRequest, frozen=True, kw_only=True):
    """Take a decommission back that has deleted nothing yet."""


class StepAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a step.

    Attributes:
        revision: of the slot's rollout now.
        changed: False if the rollout already had the requested state.
        repeated: this is the answer to an earlier request with the same id.
        gates: the answer of each gate that was asked.
        edits: what an operator has to change by hand where a flag backend is read-only; the step waits for it.
        version: of all rollouts; a replica shows this version once its binds use it.
        reached: what a kill or ramp-down has reached so far: `replica`, `flag`, `record`. The rest follows
            automatically, or `edits` and `warnings` say what to do.
        warnings: conditions that do not hold, or not yet, in words.
        decommission: its present state, where that was asked for; None also if it was undone.
        flag: the flag to switch by hand; None: this was another step.
    """

    slot: Slot
    definition_id: DefinitionId
    digest: str
    state: str
    ramp: int
    active: bool
    revision: int
    changed: bool
    repeated: bool = False
    gates: tuple[GateResult, ...] = ()
    edits: tuple[str, ...] = ()
    version: int = 0
    reached: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    decommission: Decommission | None = None
    flag: FlagSwitched | None = None
