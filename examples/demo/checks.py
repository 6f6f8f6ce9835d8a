"""Whether a turn came out as the script says."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from examples.consumer_agent.agent import TurnStory
from examples.demo.script import PlannedFault, ScriptedTurn
from subagents_client import CandidateVerdict

CANDIDATES: Final = {
    "shop": CandidateVerdict.CHOSEN,
    "rewards": CandidateVerdict.CHOSEN,
    "support": CandidateVerdict.CHOSEN,
    "travel": CandidateVerdict.STATE,
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was seen outside the turn itself.

    Attributes:
        status_lines: progress reports for which the client had words.
        mismatches: how much the counter of wrong principals went up.
        faulty_answers: answers for somebody else that the data service gave.
    """

    status_lines: int = 0
    mismatches: int = 0
    faulty_answers: int = 0


def deviations(scene: ScriptedTurn, story: TurnStory, evidence: Evidence) -> Iterator[str]:
    """Yield everything that did not go by the script; nothing if all of it did."""
    routing = story.end.routing_decision
    wanted = list(scene.calls)
    if (outcomes := [(one.sub_agent_id, one.outcome) for result in story.results for one in result.outcomes]) != wanted:
        yield f"outcomes were {outcomes}, not {wanted}"
    if (routed := [(one.sub_agent_id, one.outcome) for one in routing.calls]) != wanted:
        yield f"the routing decision has {routed}, not {wanted}"
    if routing.cap is not scene.cap:
        yield f"the cap was {routing.cap}, not {scene.cap}"
    if routing.intent_count != len({slot for slot, _ in wanted}):
        yield f"{routing.intent_count} intents were counted"
    if (verdicts := {one.sub_agent_id: one.verdict for one in routing.candidates}) != CANDIDATES:
        yield f"the candidates were {verdicts}"
    yield from _answer(scene, story)
    yield from _intents(scene, story)
    if evidence.status_lines < scene.least_status:
        yield f"{evidence.status_lines} progress lines were shown, fewer than {scene.least_status}"
    incidents = int(scene.trouble is PlannedFault.SOMEBODY_ELSES_DATA)
    if (evidence.mismatches, evidence.faulty_answers) != (incidents, incidents):
        yield f"{evidence.faulty_answers} answers for somebody else, {evidence.mismatches} counted, not {incidents}"
    yield from (f"a model provider would refuse the history: {rule}" for rule in story.broken_rules)


def _answer(scene: ScriptedTurn, story: TurnStory) -> Iterator[str]:
    yield from (f"the answer lacks {text!r}" for text in scene.answer_has if text.lower() not in story.answer.lower())
    yield from (f"the answer has {text!r}" for text in scene.answer_lacks if text.lower() in story.answer.lower())


def _intents(scene: ScriptedTurn, story: TurnStory) -> Iterator[str]:
    for report in (result.intents for result in story.results):
        if report.failsafe or report.declared != report.emitted:
            yield f"the model declared {report.declared} intents and called {report.emitted}"
        if report.switched is not scene.switched:
            yield f"the intent {'switched' if report.switched else 'did not switch'}"
    if scene.switched and story.surface.previous_sub_agents.sub_agent_ids and not story.replies[0].prior_context:
        yield "the intent switched without prior_context"
