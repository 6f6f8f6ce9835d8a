"""Compares a step of the rollout with the script. Each function yields the deviations."""

from collections.abc import Iterator, Sequence
from typing import Final

from examples.consumer_agent.agent import TurnStory
from examples.demo.environment import Question
from examples.demo.typed_commands import CommandOutput
from subagents_client import Outcome

ASKED: Final = (
    Question("shop-dates", "pre_merge", 0, 0),
    Question("shop-dates", "pre_ramp", 0, 2500),
    Question("shop-dates", "pre_ramp", 2500, 5000),
    Question("shop-dates", "pre_full", 2500, 10_000),
    Question("travel", "pre_merge", 0, 0),
    Question("travel", "pre_ramp", 0, 5000),
)
"""The expected requests to the gate service in the full demo, in order."""
MET: Final = "all thresholds met: routing_accuracy 1, switch_accuracy 1"
MISSED: Final = "routing_accuracy is 0.3231, at least 0.95; switch_accuracy is 0.5, at least 0.95"
"""The measurements of the two descriptions with the offline router, as the gate prints them."""
MOVES: Final = ("in development -> in test", "in test -> promoted", "promoted -> killed")
"""The expected transitions of the killed sub-agent in the audit: each once, in this order."""


def output_deviations(output: CommandOutput, *has: str, code: int = 0) -> Iterator[str]:
    """Check the exit code and the output of a command."""
    if output.code != code:
        yield f"the exit code was {output.code}, not {code}"
    everything = "\n".join(output.lines)
    yield from (f"the command did not print {text!r}" for text in has if text not in everything)


def answer_deviations(story: TurnStory, has: Sequence[str], lacks: Sequence[str]) -> Iterator[str]:
    """Check the outcome of the one call, and the answer."""
    outcomes = [one.outcome for result in story.results for one in result.outcomes]
    if outcomes != [Outcome.SUCCEEDED]:
        yield f"outcomes were {outcomes}, not one that succeeded"
    yield from (f"the answer lacks {text!r}" for text in has if text not in story.answer)
    yield from (f"the answer has {text!r}" for text in lacks if text in story.answer)
    yield from (f"a model provider would reject the history: {rule}" for rule in story.broken_rules)


def audit_deviations(history: CommandOutput) -> Iterator[str]:
    """Check the transitions of the killed sub-agent in the audit."""
    yield from output_deviations(history)
    moves = [move for line in history.lines for move in MOVES if f" {move} " in line]
    if moves != list(MOVES):
        yield f"the audit has the moves {moves}, not {list(MOVES)}"


def question_deviations(questions: Sequence[Question]) -> Iterator[str]:
    """Check the requests to the gate service."""
    if tuple(questions) != ASKED:
        yield f"the gate service was asked {list(questions)}, not {list(ASKED)}"


def questions_about(questions: Sequence[Question], definition_id: str) -> Iterator[str]:
    """Yield the questions about one definition, e.g. `pre_ramp 0 % -> 25 %`."""
    for each in questions:
        if each.definition_id == definition_id:
            moves = f" {each.before // 100} % -> {each.after // 100} %" if each.after else ""
            yield f"{each.gate}{moves}"
