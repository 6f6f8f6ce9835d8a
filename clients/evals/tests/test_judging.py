"""Answers are scored by each vertical's own criterion and held to its own threshold."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda
from pydantic import Field

from clients.evals.tests.support.trials import SLOTS, SUITE, case_of, run_of, trial_of
from subagents_evals.inputs.cases import Case, Fault, GoldenSet, Judge
from subagents_evals.measures.metrics import measured
from subagents_evals.measures.thresholds import shortfalls, thresholds_of, with_judges
from subagents_evals.runs.judging import kept_facts, with_judgements
from tests.support.requirement import requirement

JUDGES = {
    "shop": Judge("The offer is named.", 0.5),
    "rewards": Judge("The balance is exact.", 0.9),
}


class Grader(BaseChatModel):
    """Grades 0.8 for rewards and 0.6 for shop, and remembers what it was shown."""

    shown: list[str] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "grader"

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Runnable[Any, Any]:
        """Return what a judge returns."""

        def grade(messages: Any) -> dict[str, Any]:
            self.shown.append(str(messages))
            return {"reasoning": "so", "score": 0.8 if "balance is exact" in str(messages) else 0.6}

        return RunnableLambda(grade)

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("unused"))])


def golden(*cases: Case) -> GoldenSet:
    """Return a set with judges of two verticals."""
    suite = msgspec.structs.replace(SUITE, judges=JUDGES)
    return GoldenSet(suite, cases, {})


CASES = [
    case_of("offer", "shop", answers={"shop": "Coffee."}),
    case_of("balance", "rewards"),
    case_of("order", "support"),
]


@requirement("PC1-T-13", "PC2-T-18", "PC1-OBS-5")
async def test_each_vertical_is_judged_by_its_own_criterion_and_threshold() -> None:
    """Shop reaches its 0.5, rewards misses its 0.9; support has no judge and no score."""
    grader = Grader()
    trials = [trial_of(case, *case.calls, answer="An answer.") for case in CASES]

    judged = await with_judgements(trials, golden(*CASES), grader)

    run = run_of(*judged, metrics=measured(judged, SLOTS))
    thresholds = with_judges(thresholds_of(None, list(SLOTS)), golden().suite, run.definitions)
    assert [one.quality for one in judged] == [0.6, 0.8, None]
    assert list(shortfalls(run, thresholds)) == ["rewards: quality is 0.800, at least 0.9 is required"]
    assert any("Coffee." in one and "An answer." in one and "The offer is named." in one for one in grader.shown)


@pytest.mark.parametrize("fields", [{"faults": {"shop": Fault.ERROR}}, {"kind": "injection"}])
async def test_an_answer_without_a_reference_is_not_judged(fields: dict[str, Any]) -> None:
    """A sub-agent that failed has said nothing, and one that was hijacked says what must not be repeated."""
    case = msgspec.convert({**msgspec.to_builtins(CASES[0]), **fields}, type=Case)

    (judged,) = await with_judgements([trial_of(case, "shop")], golden(case), Grader())

    assert judged.quality is None


@pytest.mark.parametrize(
    ("answer", "score"),
    [("250 points at Harbour Roasters.", 1.0), ("Some points at Harbour Roasters.", 0.5), ("An offer.", 0.0)],
)
def test_without_a_judge_the_score_is_the_share_of_facts_that_the_answer_kept(answer: str, score: float) -> None:
    """Numbers and names; a text without any loses none."""
    assert kept_facts("Beans at Harbour Roasters for 250 points.", answer) == score
    assert kept_facts("There is no such offer.", answer) == 1.0


async def test_a_case_is_judged_by_the_worst_of_its_verticals() -> None:
    """Two sub-agents, two criteria."""
    case = case_of("both", "shop", "rewards")
    trials: Sequence[Any] = [trial_of(case, "shop", "rewards")]

    (judged,) = await with_judgements(trials, golden(case), Grader())

    assert judged.quality == 0.6
