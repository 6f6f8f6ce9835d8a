"""The interfaces of gate clients and lifecycle policies: their questions and answers. Source: PF1 §5.8.

A gate client calls a gate over a network, which may take time. A lifecycle policy decides immediately, from its
arguments alone. Both can only prevent a step: neither can raise a ramp, end a kill, or remove a gate of the platform.
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
    """The verdict of a gate. Any other text, a timeout or an outage holds the step, i.e. it is not taken (TN-78)."""

    PASS = "pass"  # noqa: S105  a verdict, no secret
    """The step may be taken."""
    FAIL = "fail"
    """The step is refused, and the failure is counted; an operator may override it."""
    PENDING = "pending"
    """The gate has not decided yet. The step is held; a later request asks the gate again."""
    INCONCLUSIVE = "inconclusive"
    """The gate has too little evidence for a decision. The step is held."""


class GateQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """The question to a gate: one definition, by digest, and one step.

    Attributes:
        gate: `pre_merge`, `pre_ramp`, `pre_full`, or a gate that a lifecycle policy added.
        commit: the commit of the configuration that contains the definition.
        from_ramp, to_ramp: the ramp before and after the step, in basis points; 0 and 0 for `pre_merge`.
        policy_version: version of the platform's gate rules; a verdict under other rules does not count.
        requested_by: the operator or automation that requested the step.
        question_id: id of the question. A repeated question has the same id, so that a gate can decide once.
        dry_run: true: the answer is only shown; no step is taken.
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
    """The answer of a gate. It is valid until `expires_at`.

    `gate`, `digest`, `commit`, the ramps and `policy_version` must be those of the question. Otherwise an answer to
    another question, e.g. from a cache, could pass the step.

    Attributes:
        summary: one line for operators.
        evidence: names and values for the audit event, e.g. a score.
    """

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
    """The gate cannot be called, or returned an invalid answer. `detail` is a text for operators."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class GateClient(Protocol):
    """Asks gates. One object asks all gates for which a vertical's settings name this client."""

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Ask one gate once, and return its answer. The sidecar limits the time of the call.

        Raises:
            GateUnavailable: there is no valid answer. Any other exception counts as this one.
        """

    async def close(self) -> None:
        """Release connections. Called once, at shutdown. Never raises."""


@unique
class Step(StrEnum):
    """The kind of change of a rollout that an operator or automation requests."""

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
"""The form of an operator key's id: 16 hexadecimal digits. The other form of `Approval.key` is a URL."""


class Approval(msgspec.Struct, frozen=True):
    """A request for exactly this step by an authenticated operator or automation.

    Attributes:
        subject: the operator or automation that requested the step.
        at: the time of the subject's latest request.
        key: what authenticated the subject at that time: the id of an operator's key, or the URL of a token issuer;
            empty: not known.
    """

    subject: str
    at: datetime
    key: str = ""

    @property
    def is_of_local_key(self) -> bool:
        """Whether an operator's key signed the token.

        The holder of such a key can write a token for each subject that the key allows. Two approvals of one key may
        therefore come from one person.
        """
        # An issuer authenticates each person itself, so two subjects of its tokens are two people.
        return LOCAL_KEY.match(self.key) is not None


class StepFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a policy may use for its decision. A policy calls no service and reads no clock.

    Attributes:
        state: the lifecycle state of the definition, before the step.
        from_ramp, to_ramp: share of users who get the definition, now and after the step, in basis points.
        actor: the operator or automation that requests the step.
        actor_key: what authenticates the actor, as in `Approval.key`.
        gate: for `override_gate`, the gate whose failure is to be overridden; empty for every other step.
        from_mode, to_mode: rollout mode of the slot, now and after the step; only `configure` changes it. From
            `experiment` to `full`, users of the control arm also get the active definition, up to its present ramp.
        approvals: the requests for exactly this step since the definition last changed, one for each subject, oldest
            first. The actor's request is the last.
        last_step_at: the time of the last step after which more users got the definition or users got new content of
            it. Such steps raise its ramp, activate it, revise it, or set the mode `full`. None: there was no such step.
        now: the time of the request by the sidecar's wall clock.
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
    """The answer of a policy.

    Attributes:
        denied: the reason why the step is denied; empty: the policy allows the step.
        more_gates: gates that must also pass.
    """

    denied: str = ""
    more_gates: tuple[str, ...] = ()


class LifecyclePolicy(Protocol):
    """Decides whether a step may be taken. The same facts give the same answer. An exception denies the step."""

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Return the answer without waiting for anything. It is not called for kills and for lower ramps."""


PLATFORM_POLICY_VERSION = "1"
"""Version of the rules that decide which steps need which gates; `policy_version` in the question to a gate."""


def combine_answers(answers: Sequence[PolicyAnswer]) -> PolicyAnswer:
    """Return one answer for several policies: one denial denies the step, and every named gate must pass."""
    # All reasons, not only the first: an operator can then remove them all before the next attempt.
    denied = "; ".join(answer.denied for answer in answers if answer.denied)
    # A `dict` and not a set: a gate that two policies name is asked once, and the order is the same in each run.
    gates = dict.fromkeys(gate for answer in answers for gate in answer.more_gates)
    return PolicyAnswer(denied, tuple(gates))
