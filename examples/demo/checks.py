"""Compares a turn with the script."""

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
}
"""Definitions that each turn must choose. All others are not promoted, or were rolled back or killed before."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Observations outside the turn itself.

    Attributes:
        status_lines: progress reports that were shown to the user.
        mismatches: the increase of the counter of wrong principals.
        faulty_answers: answers with another user's data that the data service gave.
    """

    status_lines: int = 0
    mismatches: int = 0
    faulty_answers: int = 0


def deviations(scene: ScriptedTurn, story: TurnStory, evidence: Evidence, *, switched: bool) -> Iterator[str]:
    """Yield each deviation from the script. `switched`: whether the turn calls a sub-agent that the last did not."""
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
    chosen = {one.sub_agent_id: one.verdict for one in routing.candidates if one.verdict is CandidateVerdict.CHOSEN}
    if chosen != CANDIDATES:
        yield f"the turn chose the candidates {sorted(chosen)}"
    yield from _answer(scene, story)
    yield from _intents(story, switched=switched)
    if evidence.status_lines < scene.min_status:
        yield f"{evidence.status_lines} progress lines were shown, fewer than {scene.min_status}"
    incidents = int(scene.fault is PlannedFault.WRONG_PRINCIPAL)
    if (evidence.mismatches, evidence.faulty_answers) != (incidents, incidents):
        yield f"{evidence.faulty_answers} answers for another user, {evidence.mismatches} counted, not {incidents}"
    yield from (f"a model provider would reject the history: {rule}" for rule in story.broken_rules)


def _answer(scene: ScriptedTurn, story: TurnStory) -> Iterator[str]:
    yield from (f"the answer lacks {text!r}" for text in scene.answer_has if text.lower() not in story.answer.lower())
    yield from (f"the answer has {text!r}" for text in scene.answer_lacks if text.lower() in story.answer.lower())


def _intents(story: TurnStory, *, switched: bool) -> Iterator[str]:
    for report in (result.intents for result in story.results):
        if report.failsafe or report.declared != report.emitted:
            yield f"the model declared {report.declared} intents and called {report.emitted}"
        if report.switched is not switched:
            yield f"the intent {'switched' if report.switched else 'did not switch'}"
    if switched and story.surface.previous_sub_agents.sub_agent_ids and not story.replies[0].prior_context:
        yield "the intent switched without prior_context"
