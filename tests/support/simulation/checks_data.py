"""Promises about data: who gets it, who does not, and what becomes of a grant."""

from collections.abc import Iterator

from tests.support.simulation.cards import TOOL_LIMIT
from tests.support.simulation.connector import CANARY
from tests.support.simulation.data_use import expected_answers, is_incident
from tests.support.simulation.facts import INSTANT, Facts
from tests.support.simulation.runner import ToolSeen


def data_is_released_or_withheld(facts: Facts) -> Iterator[str]:
    """A sub-agent gets its user's data, or "unavailable", or a refusal: what its contract and the service deserve."""
    for call in facts.calls():
        for run, tool, wanted in expected_answers(call)[1]:
            if tool.answer not in wanted:
                yield f"{call.name}: {tool.tool_id} ({tool.reply}) at {tool.began_at}: {tool.answer}, not {wanted}"
            if tool.began_at > run.over_at + INSTANT and tool.answer != "GRANT_SPENT":
                yield f"{call.name}: a grant worked after its attempt"


def data_calls_end_at_their_limit(facts: Facts) -> Iterator[str]:
    """Whatever a connector does, the sub-agent that waits for it has its answer when the tool's time is over."""
    for tool in _tools(facts):
        if tool.ended_at is not None and tool.ended_at > tool.began_at + TOOL_LIMIT + INSTANT:
            yield f"{tool.tool_id} ({tool.reply}) at {tool.began_at}: answered at {tool.ended_at}"


def the_principal_is_the_users(facts: Facts) -> Iterator[str]:
    """Data is asked for on behalf of the turn's user and nobody else."""
    users = {turn.principal for turn in facts.seen.schedule.turns}
    for call in facts.seen.connector.calls:
        if call.principal not in users:
            yield f"asked for {call.principal}"
    for call_facts in facts.calls():
        for run in call_facts.runs:
            if run.request.context.principal != call_facts.turn.principal:
                yield f"{call_facts.name}: ran for {run.request.context.principal}"


def nobody_sees_somebody_elses_data(facts: Facts) -> Iterator[str]:
    """The canary in wrong envelopes turns up nowhere: not at a sub-agent, in a frame, on record, or in telemetry."""
    seen = facts.seen
    if not any(is_incident(tool) or tool.reply in ("raises", "returns nonsense") for tool in _tools(facts)):
        return
    places = {
        "a sub-agent": repr([[run.request.arguments_json, run.request.contract_json] for run in seen.runner.runs])
        + repr([tool.answer for tool in _tools(facts)]),
        "a frame": repr([frame for listener in seen.watched.listeners for _, frame in listener.frames]),
        "the records": repr(list(facts.records.values())),
        "telemetry": repr(seen.recorder.told),
    }
    for place, text in places.items():
        if CANARY in text:
            yield f"the canary was seen at {place}"


def incidents_are_told(facts: Facts) -> Iterator[str]:
    """Every answer for somebody else is reported as a security incident, once."""
    complete = [tool for tool in _tools(facts) if tool.asked and is_incident(tool) and _reached(tool.answer)]
    told = len(facts.seen.recorder.of("security_incident"))
    late = sum(1 for tool in complete if tool.answer == "GRANT_SPENT")
    if not len(complete) - late <= told <= len(complete):
        yield f"{len(complete)} incidents ({late} after the end), {told} told"


def _reached(answer: str) -> bool:
    return answer in ("unavailable", "GRANT_SPENT")


def _tools(facts: Facts) -> list[ToolSeen]:
    return [tool for run in facts.seen.runner.runs for tool in run.tools]
