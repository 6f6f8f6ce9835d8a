"""Requests of operators, automation and breakers as plain values; `rpc/translate` creates them from messages.

The fingerprint of a request is stored with its answer: a repeated request gets the same answer, and another request
with the same id is refused.
"""

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

CONTEXT = frozenset({"actor_key", "actor_role", "traceparent"})
"""Fields about the requester and the call. They are not part of the contents that a repeated request must match."""
HELD = "/held"
"""Suffix for the id of a stop in effect here whose request id was used by another request before.

Such a stop must be recorded and cannot be refused, so it is recorded under its id with this suffix.
"""


class StepRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that every step request has.

    Attributes:
        slot: the rollout's slot; empty: the slot that the definition fills.
        definition_id: the definition; its newest digest, unless `digest` names another.
        expected_revision: of the slot's rollout, as read before; None for steps in the safe direction.
        request_id: created by the client; a repeated id with the same contents gets the same answer.
        reason: for the audit; not empty.
        dry_run: call policies and gates and show the result, but write nothing.
        actor_key: what authenticates the actor: the id of an operator's key, or the URL of an issuer.
        actor_role: the actor's role; empty: the request came without a token. Key and role are taken from the token,
            never from a field of a request.
        traceparent: the trace in which the step was requested, as the call's metadata has it; empty: none.
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
    traceparent: str = ""

    @property
    def fingerprint(self) -> str:
        """A digest of the contents: the kind of step is part of it, the requester is not."""
        # Without the id: it is what a repeated request has in common, and the fingerprint tells whether the rest is
        # equal.
        contents = (type(self).__name__, _contents(msgspec.structs.replace(self, request_id="")))
        return sha256(msgspec.json.encode(contents)).hexdigest()

    @property
    def sought(self) -> str:
        """The requested change. It is equal for requests of two operators for the same step."""
        return type(self).__name__

    @property
    def names_revision(self) -> bool:
        """Whether the request applies only to the state that its sender has read."""
        return self.expected_revision is not None


def _contents(asked: StepRequest) -> dict[str, Any]:
    """Return the fields that a repeated request must match."""
    return {name: value for name, value in msgspec.structs.asdict(asked).items() if name not in CONTEXT}


class Transition(StepRequest, frozen=True, kw_only=True):
    """`dev` to `test`, or `test` to `promote`."""

    step: Step

    @property
    def sought(self) -> str:
        """The step."""
        return self.step


class SetRamp(StepRequest, frozen=True, kw_only=True):
    """Set a ramp, in basis points."""

    to: int

    @property
    def sought(self) -> str:
        """The ramp."""
        return f"{Step.SET_RAMP} {self.to}"


class Configure(StepRequest, frozen=True, kw_only=True):
    """Declare mode and ramp curve of a slot; the curve in basis points."""

    mode: RolloutMode
    curve: tuple[int, ...] = ()

    @property
    def sought(self) -> str:
        """Mode and curve."""
        return f"{Step.CONFIGURE} {self.mode} {' '.join(map(str, self.curve))}"


class RampDown(StepRequest, frozen=True, kw_only=True):
    """Set a ramp to 0 after a safety breach; waits for no gate or policy.

    Attributes:
        breach_id: identifies the breach; a later `AcknowledgeBreach` names it.
    """

    breach_id: str


class AcknowledgeBreach(StepRequest, frozen=True, kw_only=True):
    """Acknowledge a breach, after which the ramp may be raised again.

    Attributes:
        breach_id: of the ramp-down that reported the breach.
    """

    breach_id: str


class OverrideGate(StepRequest, frozen=True, kw_only=True):
    """Let one `fail` of one gate pass for one step, until it expires.

    Attributes:
        gate: name of the gate.
        to: the ramp of the step, in basis points.
    """

    gate: str
    to: int
    expires_at: datetime

    @property
    def sought(self) -> str:
        """Gate and ramp, without the expiry: two operators who approve the same override may choose different ones."""
        return f"{Step.OVERRIDE_GATE} {self.gate} {self.to}"


class RollBack(StepRequest, frozen=True, kw_only=True):
    """Move a definition to `rollback`, and restore its recorded target.

    Attributes:
        to: the definition that serves instead of that target; None: the target.
    """

    to: Successor | None = None


class Activate(StepRequest, frozen=True, kw_only=True):
    """Make a definition that is still in `promote` the active one of an empty slot, e.g. after its successor's kill."""


class Kill(StepRequest, frozen=True, kw_only=True):
    """Offer a definition on no surface that is bound from now on; bound surfaces stay unchanged."""

    @property
    def sought(self) -> str:
        """Empty: no policy compares kills of several operators."""
        return ""


class RetireFlags(StepRequest, frozen=True, kw_only=True):
    """Stop using the two flags of a definition that serves all users, so that they can be deleted."""


class SwitchFlag(StepRequest, frozen=True, kw_only=True):
    """Switch one flag manually.

    Attributes:
        flag: which of the two flags.
        expected_version: of the flag, as read before; None: any version.
    """

    flag: FlagKind
    expected_version: int | None = None

    @property
    def sought(self) -> str:
        """Flag and direction."""
        return f"{type(self).__name__} {self.flag}"

    @property
    def names_revision(self) -> bool:
        """Whether the request applies only to a certain revision of the rollout or version of the flag."""
        return (self.expected_revision, self.expected_version) != (None, None)


class SwitchFlagOn(SwitchFlag, frozen=True, kw_only=True):
    """Switch on a flag that an earlier raise of the ramp switched on, and that was switched off since."""


class SwitchFlagOff(SwitchFlag, frozen=True, kw_only=True):
    """Switch a flag off: a pause, or a kill."""


class DecommissionRequest(StepRequest, frozen=True, kw_only=True):
    """A request about the decommission of a definition; the definition stays in `rollback`."""


class BeginDecommission(DecommissionRequest, frozen=True, kw_only=True):
    """Begin to remove a definition permanently; the decommission should be finished within a configured window."""

    @property
    def sought(self) -> str:
        """The request's name."""
        return f"{Step.DECOMMISSION} begin"


class TakeDecommissionStep(DecommissionRequest, frozen=True, kw_only=True):
    """Report that one of the five steps was completed in the configuration repository.

    Attributes:
        code: for `CleanupStep.MODULES`: what happened to the sub-agent's modules; None for the other steps.
        confirmed: the operator's statement about what no sidecar can check.
    """

    step: CleanupStep
    code: CodeStatus | None = None
    confirmed: str = ""

    @property
    def sought(self) -> str:
        """The step, without the statement: two operators who approve the same step may word it differently."""
        return " ".join(filter(None, (Step.DECOMMISSION, self.step, self.code)))


class DecideDecommission(DecommissionRequest, frozen=True, kw_only=True):
    """Decide what happens to the eval suite, or to the tools."""

    matter: Subject
    choice: Choice

    @property
    def sought(self) -> str:
        """The decision."""
        return f"{Step.DECOMMISSION} {self.matter} {self.choice}"


class UndoDecommission(DecommissionRequest, frozen=True, kw_only=True):
    """Undo a decommission that has not deleted anything yet."""


class StepAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a step.

    Attributes:
        ramp: in basis points.
        active: the definition is the active one of its slot.
        revision: the present revision of the slot's rollout.
        changed: False if the rollout already had the requested state.
        repeated: this is the answer to an earlier request with the same id.
        gates: the answers of the gates that were called.
        edits: changes that an operator must make in a read-only flag backend. A step other than a stop is not taken
            before they are made; the operator then repeats the request.
        version: the number of the last write to the rollouts of all slots; a replica reports this number once its
            binds use the write.
        reached: what a kill or ramp-down has reached so far: `replica`, `flag`, `record`. The rest follows
            automatically, or `edits` and `warnings` say what to do.
        warnings: conditions that are not met, or not yet, one sentence each.
        decommission: its present state, if the request was about it; None also if it was undone.
        flag: the flag that the request switches; None: the request is no `SwitchFlag`.
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
