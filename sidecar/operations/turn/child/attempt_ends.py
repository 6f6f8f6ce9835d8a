"""Converts the end of an attempt into the end that its outcome is derived from.

An attempt ends with what the runner's stream said last. Here that end is corrected by what only the sidecar knows:
the questions of data services, effects of unknown result, and attempts that died with another sidecar. `run_child`
calls this between an attempt and the retry decision; `attempt_outcomes` makes the outcome from the result.

Source: SX-21, SX-28, SX-51.
"""

from typing import Final

import msgspec

from sidecar.core.dispatching.outcomes import Answer
from sidecar.core.dispatching.questions import Asked
from sidecar.core.dispatching.result_checks import InvalidResult, ResultCollector
from sidecar.core.executing.tool_questions import is_made_here
from sidecar.core.faults import Fault
from sidecar.core.journal.marks import Values
from sidecar.operations.turn.child.run_attempt import AttemptEnd, BrokenReport, Finished, OutOfBudget
from sidecar.operations.turn.state.child import Child
from subagents_errors import CallFailure

DEADLINE_EXCEEDED: Final = frozenset({CallFailure.ATTEMPT_TIMEOUT, CallFailure.RUNNER_IDLE})


def lost_with_sidecar(child: Child, allowed: int) -> AttemptEnd | None:
    """Return the end of a child whose sidecar is dead; None if it may make another of its `allowed` attempts.

    Source: SX-28.
    """
    if not child.restored or (child.attempts < allowed and not child.data.final):
        return None
    # A recorded effect without a recorded result may have happened, so even the first attempt here could repeat it.
    if child.data.final:
        return BrokenReport(CallFailure.SIDECAR_LOST, "its sidecar is gone, and another attempt could repeat an effect")
    return BrokenReport(CallFailure.SIDECAR_LOST, "its sidecar is gone, and no attempt is left")


def accepted_result(
    child: Child, end: AttemptEnd, stopped: CallFailure | None, collector: ResultCollector
) -> AttemptEnd:
    """Return the end, or a failure if its question is refused or its answer is empty without a permitted reason.

    If a data service has asked the user a question, the end is that question, unless the child was stopped.
    """
    if child.tool_question is not None:
        end = end if stopped is not None or isinstance(end, OutOfBudget) else _as_end(child.tool_question, collector)
    elif isinstance(end, Finished) and end.asked is not None and is_made_here(end.asked.state):
        # Only the sidecar makes such a state. If a sub-agent could copy one, an approval of the user could reach a
        # service that never asked for it.
        return BrokenReport(CallFailure.QUESTION_REFUSED, "its state is that of a data service's question")
    if isinstance(end, Finished) and end.asked is not None:
        delegated = child.contract.parent_child_id is not None
        why = "a sub-agent that another one asked cannot ask back: nothing continues its work"
        return BrokenReport(CallFailure.QUESTION_REFUSED, why) if delegated else end
    # An empty answer fails the call by default: the orchestrator's model could not tell it from an answer, and would
    # invent one for the user.
    if not isinstance(end, Finished) or not end.answer.is_empty or child.tool.card.definition.allow_empty_answer:
        return end
    # Missing data explains an empty answer: the outcome is then degraded, not failed.
    if child.data.forces_degraded or child.data.budget_hit:
        return end
    return BrokenReport(CallFailure.RESULT_EMPTY, "it finished without narration, component, or a word on missing data")


def _as_end(asked: Asked, collector: ResultCollector) -> AttemptEnd:
    """Return an end with a data service's question. Its text passes the same checks as the question of a sub-agent."""
    try:
        return Finished(Answer(), collector.question(asked))
    except InvalidResult as problem:  # the checks have removed the whole text
        return BrokenReport(problem.reason, problem.detail)


def with_effect_unknown(end: AttemptEnd) -> BrokenReport:
    """Return the end of a child with an effect of unknown result, which takes precedence over every other end."""
    if isinstance(end, BrokenReport):
        why = end.detail if end.reason is CallFailure.EFFECT_UNKNOWN else f"{end.reason}: {end.detail}"
        return BrokenReport(CallFailure.EFFECT_UNKNOWN, why, fault=end.fault, evidence=end.evidence)
    return BrokenReport(CallFailure.EFFECT_UNKNOWN, "it ended while an effect was on its way", evidence=end.answer)


def idle_timeout_failure(end: AttemptEnd, target: str) -> AttemptEnd:
    """Return the end of an attempt without any message of the host: its timeout counts as a transport fault."""
    if not (isinstance(end, BrokenReport) and end.reason in DEADLINE_EXCEEDED):
        return end
    remedy = "the host took the attempt and reported nothing in time: see its log, or allow the attempt more time"
    return msgspec.structs.replace(end, fault=Fault(target, target, remedy=remedy))


def fault_of(end: AttemptEnd | None) -> Fault | None:
    """Return where the connection to the host broke; None if the attempt ended for another reason."""
    return end.fault if isinstance(end, BrokenReport) else None


def fault_values(end: AttemptEnd) -> Values:
    """Return the fault as values of an event: target, address, errno and remedy, or four times None."""
    fault = fault_of(end)
    return (None,) * 4 if fault is None else (fault.target, fault.address, fault.errno, fault.remedy)


def failure_of(end: AttemptEnd | None) -> str:
    """Return the error of an attempt's span; empty if the attempt succeeded. `end` None: a defect of the sidecar."""
    match end:
        case Finished():
            return ""
        case OutOfBudget():
            return CallFailure.BUDGET_EXHAUSTED.name
        case BrokenReport(reason):
            return reason.name
        case None:
            return CallFailure.INTERNAL.name
