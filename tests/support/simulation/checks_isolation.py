"""Promises about one call among others: it gets what its own script is worth, whatever the others do."""

import json
from collections import Counter
from collections.abc import Iterator

from sidecar.core.dispatching.outcomes import Outcome
from tests.support.simulation.cards import prompt_of
from tests.support.simulation.checks_calls import AFTER_A_STOP
from tests.support.simulation.data_use import DataFacts, expected_answers, is_incident
from tests.support.simulation.facts import INSTANT, NEVER, CallFacts, Facts, opened_unconfirmed
from tests.support.simulation.predicting import TRANSIENT, Kind, Predicted, predict
from tests.support.simulation.schedule import CallKind
from tests.support.simulation.scripts import Do, End
from tests.support.simulation.stops import Stop, saving_until, stops_of

STOPPED = ("JOIN_DEADLINE", "CALL_CANCELLED", "TURN_OVER")
SAYING = (Do.NARRATE, Do.COMPONENT)
SOON = 1e-3
FIRST_BACKOFF = 0.1
"""Seconds before the second attempt at most; twice as long before each further one."""


def outcomes_are_their_own(facts: Facts) -> Iterator[str]:
    """Each call that ran ends as its script says, unless somebody entitled stopped it before."""
    for call in facts.calls():
        if call.spec.kind is not CallKind.FIT or call.routed.outcome in (Outcome.DROPPED, Outcome.NOT_STARTED):
            continue
        for problem in _problems(facts, call, stops_of(facts, call)):
            yield f"{call.name}: {problem}"


def _problems(facts: Facts, call: CallFacts, stops: list[Stop]) -> Iterator[str]:
    reason, decided = call.routed.reason, call.decided_at
    if decided is None:
        yield "it ran, and nothing is on record of its outcome"
    elif reason == "RECORD_UNAVAILABLE":
        if not _trouble(facts):
            yield "the store worked"
    elif reason == "SIDECAR_LOST":
        if not opened_unconfirmed(facts, call):
            yield "its sidecar was there all the time"
    elif reason == "RUNNER_BREAKER_OPEN":
        if not facts.seen.schedule.tuning.stingy:
            yield "no breaker could be open"
        elif not _may_be_unreachable(facts, call, decided):
            yield "nothing was wrong on the way to its sub-agent"
    elif reason in STOPPED:
        yield from _stopped_wrongly(facts, call, stops, decided)
    elif not call.runs:
        yield "it never ran"
    else:
        yield from _ended_wrongly(facts, call, stops, decided)


def _may_be_unreachable(facts: Facts, call: CallFacts, decided: float) -> bool:
    """Say whether an attempt of the same slot may have met a transport fault: unreachable, or silent at first."""
    slot = None if call.spec.card is None else call.spec.card.definition.slot
    runs = [run for run in facts.seen.runner.runs if run.request.card.definition.slot == slot]
    return any(
        run.began_at <= decided + INSTANT
        and (run.script.end is End.UNREACHABLE or not run.script.steps or run.script.steps[0].do is Do.WAIT)
        for run in runs
    )


def _ended_wrongly(facts: Facts, call: CallFacts, stops: list[Stop], decided: float) -> Iterator[str]:
    ends = _ends(call, call.runs[-1].request.attempt)
    if call.routed.attempts > call.runs[-1].request.attempt:  # the child's time was over when the next one was saved
        ends = [*ends, *(Predicted(decided, Kind.OUT_OF_BUDGET) for at in [_wall_clock_at(call)] if at <= decided)]
    wanted = next((each for each in ends if _outcome(call, each) == _said(call)), None)
    if wanted is None and not call.dispatch.confirmed and _said(call) == ("degraded", "BUDGET_EXHAUSTED"):
        return  # its time ran from when it was opened, which is before it could be found on record
    if wanted is None:
        yield f"its script ends with {ends}"
        return
    if abs(wanted.at - decided) > SOON and not (wanted.kind in TRANSIENT and decided > wanted.at):
        yield f"decided at {decided}, and its script ends at {wanted.at}"
    allowed = 1 + (call.spec.card.definition.limits.max_retries if call.spec.card else 0)
    early = wanted.kind in TRANSIENT and call.routed.attempts < allowed and not expected_answers(call)[0].incident
    stopped = any(stop.at <= decided + SOON for stop in stops)
    if early and not stopped and not _out_of_time(facts, call, decided) and not facts.seen.schedule.tuning.stingy:
        yield f"given up after {call.routed.attempts} of {allowed} attempts"


def _out_of_time(facts: Facts, call: CallFacts, decided: float) -> bool:
    """Say whether the child's time would have been over before the next attempt began.

    That attempt is not promised: the call then ends as the last one did, without waiting for the time to run out. The
    wait that was drawn in that moment decides, so a child that still had time for an attempt must have made it.
    """
    longest = FIRST_BACKOFF * 2 ** (call.routed.attempts - 1)
    waits = [wait for at, wait in facts.seen.chance.drawn if abs(at - decided) <= INSTANT and wait <= longest]
    return any(decided + wait >= _wall_clock_at(call) - INSTANT for wait in waits)


def _stopped_wrongly(facts: Facts, call: CallFacts, stops: list[Stop], decided: float) -> Iterator[str]:
    if not call.runs or not call.dispatch.confirmed:  # found on record later, by whoever listens then, or by nobody
        return
    began = call.runs[0].began_at
    mine = [stop for stop in stops if stop.reason == call.routed.reason]
    due = [(max(stop.at, began), max(stop.at, stop.latest, began)) for stop in mine]
    if not any(at - AFTER_A_STOP <= decided <= saving_until(facts, call, last) + AFTER_A_STOP for at, last in due):
        yield f"nobody was entitled to stop it at {decided}"
    if call.routed.attempts == len(call.runs):
        ends = _ends(call, call.runs[-1].request.attempt)
        if decided > min(each.at for each in ends) + SOON:
            yield f"stopped at {decided}, and its script had ended: {ends}"


def _trouble(facts: Facts) -> int:
    counted = facts.seen.counted
    return sum(count for what, count in counted.items() if what.startswith("store "))


def _said(call: CallFacts) -> tuple[str, str | None]:
    return call.routed.outcome.value, None if call.routed.reason is None else call.routed.reason.value


def _ends(call: CallFacts, attempt: int) -> list[Predicted]:
    """Return how one attempt of a call may end."""
    run = next(each for each in call.runs if each.request.attempt == attempt)
    assert call.spec.card is not None
    limits = call.spec.card.definition.limits
    spent = sum(each.tokens for each in call.runs if each.request.attempt < attempt)
    return predict(run, limits, _wall_clock_at(call), None if limits.tokens is None else limits.tokens - spent)


def _wall_clock_at(call: CallFacts) -> float:
    """Return when the time of all attempts is over."""
    limits = call.spec.card.definition.limits if call.spec.card else None
    if limits is None or limits.wall_clock is None:
        return NEVER
    return call.runs[0].began_at + limits.wall_clock.total_seconds()


def _outcome(call: CallFacts, end: Predicted) -> tuple[str, str | None]:
    """Return the outcome that an end means."""
    if end.kind is Kind.OUT_OF_BUDGET:
        return "degraded", "BUDGET_EXHAUSTED"
    if end.kind not in (Kind.ANSWER, Kind.ANSWER_WITHOUT_DATA):
        return "failed", end.reason
    data: DataFacts = expected_answers(call)[0]
    if data.out_of_budget:
        return "degraded", "BUDGET_EXHAUSTED"
    if end.kind is Kind.ANSWER_WITHOUT_DATA or data.degrades:
        return "degraded", "DATA_UNAVAILABLE"
    if _says_nothing(call):
        return "failed", "RESULT_EMPTY"
    return "succeeded", None


def _says_nothing(call: CallFacts) -> bool:
    """Say whether the last attempt's script makes and says nothing, and the card does not allow that."""
    assert call.spec.card is not None
    steps = call.runs[-1].script.steps
    return not call.spec.card.definition.allow_empty_answer and all(step.do not in SAYING for step in steps)


def calls_are_given_their_own(facts: Facts) -> Iterator[str]:
    """Contract, arguments and prompt are the call's, its card's and its turn's, and no two attempts have one grant."""
    grants = Counter(run.request.grant for run in facts.seen.runner.runs)
    yield from (f"{count} attempts have the grant {grant}" for grant, count in grants.items() if count > 1)
    for call in facts.calls():
        for run in call.runs:
            card, request = call.spec.card, run.request
            assert card is not None
            contract = json.loads(request.contract_json)
            given = (contract["parent"]["run_id"], contract["step"], contract["definition_digest"])
            step = {
                "title": call.spec.tool_name,
                "description": call.spec.key,
                "success_criteria": list(card.definition.success_criteria),
            }
            if given != (call.turn.turn_id, step, card.digest):
                yield f"{call.name}: its contract says {given}"
            if contract["ownership"] != [f"slot:{card.definition.slot}", *card.definition.ownership]:
                yield f"{call.name}: its contract gives it {contract['ownership']}"
            if request.arguments_json != call.spec.arguments_json:
                yield f"{call.name}: its arguments are {request.arguments_json}"
            if request.prompt_prefix != prompt_of(card, facts.seen.schedule.tuning.cap):
                yield f"{call.name}: its prompt begins {request.prompt_prefix!r}"


def stops_take_effect(facts: Facts) -> Iterator[str]:
    """The outcome is decided within 100 ms of a stop, and nothing begins after one."""
    for call in facts.calls():
        if not call.runs or not call.dispatch.confirmed:
            continue
        began = call.runs[0].began_at
        for stop in stops_of(facts, call):
            if not stop.certain:
                continue
            if (call.decided_at or NEVER) > saving_until(facts, call, max(stop.at, began)) + AFTER_A_STOP:
                yield f"{call.name}: {stop.reason} at {stop.at}, decided at {call.decided_at}"
            if any(run.began_at > stop.at + INSTANT for run in call.runs):
                yield f"{call.name}: an attempt began after {stop.reason} at {stop.at}"


def attempts_are_bounded(facts: Facts) -> Iterator[str]:
    """At most 1 + max_retries, each after a transient failure of the one before, which is over by then."""
    for call in facts.calls():
        allowed = 1 + (call.spec.card.definition.limits.max_retries if call.spec.card else 0)
        if max(len(call.runs), call.routed.attempts) > allowed:
            yield f"{call.name}: {call.routed.attempts} attempts, {allowed} allowed"
        for before, after in zip(call.runs, call.runs[1:], strict=False):
            if after.request.attempt <= before.request.attempt:
                yield f"{call.name}: attempt {after.request.attempt} after {before.request.attempt}"
            if any(is_incident(tool) and tool.answer == "unavailable" for tool in before.tools):
                yield f"{call.name}: tried again after an answer for somebody else"
            ends = _ends(call, before.request.attempt)
            if not any(end.kind in TRANSIENT and end.at <= after.began_at + INSTANT for end in ends):
                yield f"{call.name}: tried again after {ends}"


def each_answer_is_its_own_attempts(facts: Facts) -> Iterator[str]:
    """An answer holds what the last attempt said, and nothing of an attempt that was over."""
    for call in facts.calls():
        if call.settled is None or call.settled.outcome.outcome is not Outcome.SUCCEEDED or not call.runs:
            continue
        said = "".join(step.text for step in call.runs[-1].script.steps if step.do == "narrate")
        answer = call.settled.outcome.answer
        made = sum(step.do == "component" for step in call.runs[-1].script.steps)
        if answer.narration != said or len(answer.components) != made:
            yield f"{call.name}: answered {answer.narration!r} and {len(answer.components)} components"
