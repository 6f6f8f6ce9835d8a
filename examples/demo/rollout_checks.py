"""Whether a step of the rollout came out as the script says. Each yields what did not; nothing if all of it did."""

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
"""What the gate service has to be asked in the whole act, in this order."""
MOVES: Final = ("dev -> test", "test -> promote", "promote -> rollback")
"""What the audit has to have of the sub-agent that is killed, once each and in this order."""


def said_deviations(said: CommandOutput, *has: str, code: int = 0) -> Iterator[str]:
    """The exit code, and what the command has to say."""
    if said.code != code:
        yield f"the exit code was {said.code}, not {code}"
    everything = "\n".join(said.lines)
    yield from (f"the command did not say {text!r}" for text in has if text not in everything)


def answer_deviations(story: TurnStory, has: Sequence[str], lacks: Sequence[str]) -> Iterator[str]:
    """The outcome of the one call, and the answer."""
    outcomes = [one.outcome for result in story.results for one in result.outcomes]
    if outcomes != [Outcome.SUCCEEDED]:
        yield f"outcomes were {outcomes}, not one that succeeded"
    yield from (f"the answer lacks {text!r}" for text in has if text not in story.answer)
    yield from (f"the answer has {text!r}" for text in lacks if text in story.answer)
    yield from (f"a model provider would refuse the history: {rule}" for rule in story.broken_rules)


def audit_deviations(history: CommandOutput) -> Iterator[str]:
    """The moves of the sub-agent that was killed: one for each, the kill too."""
    yield from said_deviations(history)
    moves = [move for line in history.lines for move in MOVES if f" {move} " in line]
    if moves != list(MOVES):
        yield f"the audit has the moves {moves}, not {list(MOVES)}"


def asked_deviations(questions: Sequence[Question]) -> Iterator[str]:
    """What the gate service was asked."""
    if tuple(questions) != ASKED:
        yield f"the gate service was asked {list(questions)}, not {list(ASKED)}"
