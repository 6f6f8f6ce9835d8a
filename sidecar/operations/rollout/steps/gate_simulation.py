"""Predicts what a step asks its policies and gates, and the effect of each possible answer of a gate.

`sidecar gate ask --simulate` shows the prediction, so that a gate can be set up before the first real step. The real
policies are called, because they are pure. The possible answers of a gate are judged by the code that judges real
answers.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec

from sidecar.core.definitions.cards.card import Card
from sidecar.core.errors import GateFailed, GateHeld
from sidecar.core.identifiers import Digest
from sidecar.core.rollout.definition_changes import fresh_facts
from sidecar.core.rollout.events import GateResult
from sidecar.core.rollout.states import LifecycleState
from sidecar.operations.ports import Clock
from sidecar.operations.rollout.steps.gate_checks import GateEvaluator, GateRules, refuse_unless_passed
from sidecar.operations.rollout.steps.policy_checks import NamedPolicies, asked_at_once, policy_answers
from sidecar.policy.lifecycle import (
    PLATFORM_POLICY_VERSION,
    Approval,
    GateAnswer,
    GateQuestion,
    GateUnavailable,
    PolicyAnswer,
    Step,
    StepFacts,
    Verdict,
)

LIFE: Final = timedelta(hours=1)
"""How long the simulated answers are valid. Any time that is not over within the simulation would do."""
StepResult = Literal["taken", "refused", "held"]
OPERATOR: Final = "operator@example"
"""The operator who requests the simulated step."""


class AnswerEffect(msgspec.Struct, frozen=True):
    """What one possible answer of a gate would do.

    Attributes:
        answer: a verdict, or why there is no valid one, e.g. `pass, expired`.
        step: what happens to the step; `taken` if all other gates pass, too.
        reason: the reason of the error with which the step is refused or held; empty if it is taken.
        counted: whether the answer counts as a failed gate in the metrics.
        anomaly: the kind of the anomaly that is logged; empty if none is.
        shown: the text that operators read about the answer.
    """

    answer: str
    step: StepResult
    reason: str
    counted: bool
    anomaly: str
    shown: str


async def answers_of_policies(
    policies: NamedPolicies, card: Card, from_ramp: int, to_ramp: int | None, now: datetime
) -> dict[str, PolicyAnswer]:
    """Return the answer of each policy about a raise to `to_ramp` basis points, or about the promotion if it is None.

    The step is the first one of this definition, and one operator has requested it. Empty if the ramp does not rise:
    such a step calls no policy.
    """
    if to_ramp is not None and to_ramp <= from_ramp:
        return {}
    facts = fresh_facts(card)
    step = StepFacts(
        step=Step.PROMOTE if to_ramp is None else Step.SET_RAMP,
        slot=card.definition.slot,
        definition_id=facts.definition_id,
        digest=facts.digest,
        vertical=facts.vertical,
        state=LifecycleState.TEST if to_ramp is None else LifecycleState.PROMOTE,
        from_ramp=from_ramp,
        to_ramp=from_ramp if to_ramp is None else to_ramp,
        actor=OPERATOR,
        approvals=(Approval(OPERATOR, now),),
        last_step_at=None,
        now=now,
    )
    # `asked_at_once` calls a policy directly, without a time limit: the simulation runs in a command, and not in a
    # sidecar that serves others. Reports of the policies are dropped: a simulation must not raise alarms.
    return await policy_answers(policies, step, asked_at_once, lambda _kind, _detail: None)


def questions_of(
    card: Card, from_ramp: int, to_ramp: int | None, answers: Mapping[str, PolicyAnswer]
) -> tuple[GateQuestion, ...]:
    """Return the questions of all gates that the policies name, each once; their requester and id are examples.

    The platform's policy is one of the policies: it names the first gates, e.g. `pre_merge`.
    """
    gates = dict.fromkeys(gate for answer in answers.values() for gate in answer.more_gates)
    return tuple(_question(card, gate, from_ramp, from_ramp if to_ramp is None else to_ramp) for gate in gates)


async def effects_on(question: GateQuestion, card: Card, clock: Clock) -> tuple[AnswerEffect, ...]:
    """Return the effect of every verdict, and of every case without a valid verdict. Calls no gate."""
    return tuple(
        [await _effect(name, answer, question, card, clock) for name, answer in _answers(question, clock.now())]
    )


def _question(card: Card, gate: str, from_ramp: int, to_ramp: int) -> GateQuestion:
    return GateQuestion(
        gate=gate,
        slot=card.definition.slot,
        definition_id=card.definition.id,
        digest=card.digest,
        commit=card.commit,
        vertical=card.definition.vertical,
        from_ramp=from_ramp,
        to_ramp=to_ramp,
        policy_version=PLATFORM_POLICY_VERSION,
        requested_by=OPERATOR,
        question_id="simulated",
    )


def _answers(question: GateQuestion, now: datetime) -> Iterator[tuple[str, GateAnswer | Exception]]:
    """Yield each possible answer with its name; an exception is what the client raises instead of an answer."""
    passed = GateAnswer(
        verdict=Verdict.PASS,
        gate=question.gate,
        digest=question.digest,
        commit=question.commit,
        from_ramp=question.from_ramp,
        to_ramp=question.to_ramp,
        policy_version=question.policy_version,
        expires_at=now + LIFE,
    )
    for verdict in Verdict:
        yield verdict.value, msgspec.structs.replace(passed, verdict=verdict)
    # Exactly now: an answer expires at this moment, and not after it.
    yield "pass, expired", msgspec.structs.replace(passed, expires_at=now)
    yield "pass for another digest", msgspec.structs.replace(passed, digest=Digest("sha256:another"))
    yield "pass for another step", msgspec.structs.replace(passed, to_ramp=question.to_ramp + 1)
    yield "no answer in time", TimeoutError()
    yield "unavailable", GateUnavailable("the gate cannot be reached")


async def _effect(
    name: str, answer: GateAnswer | Exception, question: GateQuestion, card: Card, clock: Clock
) -> AnswerEffect:
    # Fresh reports for each answer, so that each shows its own effect.
    client, reported = _Scripted(answer), _Reports()
    # The code of real steps, so that the prediction cannot differ from it.
    evaluator = GateEvaluator(GateRules(), lambda _vertical, _gate: client, clock, reported)
    results = await evaluator.ask_all(question, [question.gate], question.vertical, fresh_facts(card))
    step, reason = _outcome(results)
    return AnswerEffect(name, step, reason, reported.failed, reported.kind, results[0].words)


def _outcome(results: Sequence[GateResult]) -> tuple[StepResult, str]:
    """Return what happens to the step, and the reason of the error; empty if the step is taken."""
    try:
        refuse_unless_passed(results)
    except GateFailed as failed:
        return "refused", failed.reason
    except GateHeld as held:
        return "held", held.reason
    return "taken", ""


class _Scripted:
    """A gate client with one answer."""

    def __init__(self, answer: GateAnswer | Exception) -> None:
        self._answer = answer

    async def ask(self, _question: GateQuestion) -> GateAnswer:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    async def close(self) -> None:
        """Close nothing."""


class _Reports:
    """Keeps what the evaluation of one answer reports."""

    def __init__(self) -> None:
        self.failed = False
        self.kind = ""

    def gate_failed(self, _definition_id: str, _gate: str) -> None:
        self.failed = True

    def anomaly(self, kind: str, _detail: str) -> None:
        self.kind = kind
