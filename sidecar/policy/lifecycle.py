"""The questions to gates and lifecycle policies, and their allowed answers. Source: DESIGN sections 8 and 9, PF1 §5.8.

A gate is called over a network and may take time; a policy decides immediately from its arguments. Both can only hold
a step back: neither raises a ramp, clears a kill, or removes a gate of the platform.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum, unique
from typing import Final, Protocol

import msgspec

from sidecar.core.identifiers import Commit, DefinitionId, Digest, Slot, Vertical
from sidecar.core.rollout.facts import RolloutMode
from sidecar.core.rollout.states import LifecycleState


@unique
class Verdict(StrEnum):
    """The verdict of a gate. Anything else, a timeout or an outage holds the step (TN-78)."""

    PASS = "pass"  # noqa: S105  a verdict, no secret
    """The step may be taken."""
    FAIL = "fail"
    """The step is refused, and the failure is counted; an operator may override it."""
    PENDING = "pending"
    """Nothing is decided yet: the step is held, and a later request asks again."""
    INCONCLUSIVE = "inconclusive"
    """What is known does not allow a decision: the step is held."""


class GateQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """The question to a gate: one definition, by digest, and one step.

    Attributes:
        gate: `pre_merge`, `pre_ramp`, `pre_full`, or one that a policy added.
        from_ramp, to_ramp: basis points; 0 and 0 for `pre_merge`.
        policy_version: of the platform's rules; a verdict under other rules does not count.
        question_id: the same for a repeated question.
        dry_run: the answer is shown and counts for nothing.
    """

    gate: str
    slot: Slot
    definition_id: DefinitionId
    digest: Digest
    commit: Commit
    vertical: Vertical
    from_ramp: int
    to_ramp: int
    policy_version: str
    requested_by: str
    question_id: str
    dry_run: bool = False


class GateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a gate. It must repeat the question, and is valid until `expires_at`."""

    verdict: Verdict
    gate: str
    digest: Digest
    commit: Commit
    from_ramp: int
    to_ramp: int
    policy_version: str
    expires_at: datetime
    summary: str = ""
    evidence: Mapping[str, str] = {}


class GateUnavailable(Exception):
    """The gate cannot be called, or returned an invalid answer; `detail` is for operators."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class GateClient(Protocol):
    """Asks gates. One object for all gates that a vertical's configuration routes to it."""

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Ask once. The sidecar sets the deadline. Raises `GateUnavailable`; whatever else it raises counts as that."""

    async def close(self) -> None:
        """Release connections. Called once, at shutdown. Never raises."""


@unique
class Step(StrEnum):
    """The step that an operator, or automation, requests."""

    TO_TEST = "to_test"
    PROMOTE = "promote"
    SET_RAMP = "set_ramp"
    CONFIGURE = "configure"
    ROLL_BACK = "roll_back"
    ACTIVATE = "activate"
    RETIRE_FLAGS = "retire_flags"
    OVERRIDE_GATE = "override_gate"
    DECOMMISSION = "decommission"


LOCAL_KEY: Final = re.compile(r"[0-9a-f]{16}\Z")
"""The id of an operator's key; an issuer is named by its URL."""


class Approval(msgspec.Struct, frozen=True):
    """An authenticated subject has requested exactly this step.

    Attributes:
        subject: the operator or automation that requested the step.
        at: the time of the subject's latest request.
        key: what authenticated the subject then: the id of an operator's key, or the URL of a token issuer; empty: not
            known.
    """

    subject: str
    at: datetime
    key: str = ""

    @property
    def is_of_local_key(self) -> bool:
        """Whether an operator's key signed the token. Its holder could write any subject that the key allows."""
        return LOCAL_KEY.match(self.key) is not None


class StepFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a policy may use for its decision. A policy calls no service and reads no clock.

    Attributes:
        from_ramp, to_ramp: share of users that get the definition, now and after the step, in basis points.
        actor: the subject that requests the step.
        actor_key: what authenticates the actor, as in `Approval.key`.
        gate: the gate whose failure is to be overridden; empty for every other step.
        from_mode, to_mode: rollout mode of the slot, now and after the step; only `configure` changes it. From
            `experiment` to `full`, users of the control arm also get the active definition, up to its present ramp.
        approvals: the requests for exactly this step since the definition last changed, one for each subject, oldest
            first. The actor's is the last.
        last_step_at: the last time at which more users got the definition, or users got other content of it: its ramp
            was raised, or it was activated or revised. None: never.
        now: the sidecar's wall clock.
    """

    step: Step
    slot: Slot
    definition_id: DefinitionId
    digest: Digest
    vertical: Vertical
    state: LifecycleState
    from_ramp: int
    to_ramp: int
    actor: str
    actor_key: str = ""
    gate: str = ""
    from_mode: RolloutMode = RolloutMode.EXPERIMENT
    to_mode: RolloutMode = RolloutMode.EXPERIMENT
    approvals: tuple[Approval, ...]
    last_step_at: datetime | None
    now: datetime


class PolicyAnswer(msgspec.Struct, frozen=True):
    """The answer of a policy: denied with a reason, or allowed, perhaps with more gates."""

    denied: str = ""
    more_gates: tuple[str, ...] = ()


class LifecyclePolicy(Protocol):
    """Decides whether a step may be taken. The same facts give the same answer. An exception denies the step."""

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Return the answer without waiting for anything. Kills and lower ramps are never asked about."""


PLATFORM_POLICY_VERSION = "1"


def combine_answers(answers: Sequence[PolicyAnswer]) -> PolicyAnswer:
    """Return one answer for several policies: one denial denies the step, and every named gate must pass."""
    # All reasons, not only the first: an operator who removes one would otherwise meet the next at the following
    # attempt.
    denied = "; ".join(answer.denied for answer in answers if answer.denied)
    # A `dict`, because two policies may name the same gate, which is asked once, in a stable order.
    gates = dict.fromkeys(gate for answer in answers for gate in answer.more_gates)
    return PolicyAnswer(denied, tuple(gates))
