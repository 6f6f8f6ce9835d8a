"""The whole example set through the real orchestrator and a real sidecar, with the offline router."""

import asyncio
import shutil
from pathlib import Path
from typing import Any, Final

import pytest
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from typing_extensions import override

from subagents_evals.inputs.cases import Kind
from subagents_evals.measures.metrics import figures_of
from subagents_evals.measures.results import Run, gate_metrics
from subagents_evals.measures.trial import Trial
from subagents_evals.runs.evaluation_run import CaseSelection, Measuring, prepare, run
from subagents_evals.runs.lexical_router import LexicalRouter
from subagents_evals.runs.play_cases import Models
from tests.architecture.reading import REPOSITORY
from tests.support.requirement import requirement

pytestmark = pytest.mark.system

EXAMPLE: Final = REPOSITORY / "examples" / "config"


@pytest.fixture(scope="module")
def done() -> Run:
    """One run over every case."""
    wish = Measuring(folder=EXAMPLE)
    return asyncio.run(run(prepare(wish), wish))


def of_kind(done: Run, kind: Kind) -> list[Trial]:
    """Return the trials of a kind."""
    return [one for one in done.trials if one.kind == kind.value]


@requirement("PC1-T-11", "PC2-T-15", "PC2-NFR-6", "PC2-NFR-3b")
def test_routing_is_measured_on_every_ordered_pair_of_verticals(done: Run) -> None:
    """Three cases for each of six pairs; each vertical reaches its threshold on them."""
    switches = of_kind(done, Kind.SWITCH)
    slots = [one.slot for one in done.definitions]
    pairs = {(before, after) for before in slots for after in slots if before != after}

    assert {one.switch for one in switches} == pairs
    assert len(switches) >= 3 * len(pairs)
    assert list(done.gaps) == []
    assert all(gate_metrics(done, slot)["switch_accuracy"] >= 0.95 for slot in slots)


@requirement("PC1-T-12", "PC1-OBS-4", "PC1-D-52")
def test_entities_of_up_to_three_turns_ago_reach_the_sub_agent_by_prior_context(done: Run) -> None:
    """Planted in answers of other verticals, absent from the message."""
    recall = [one for one in of_kind(done, Kind.RECALL) if one.exact]

    assert len(recall) >= 5
    assert all(one.needed and one.recalled == one.needed for one in recall)
    assert all(any(handed.prior_context for handed in one.observed.handed) for one in recall)


@requirement("PC1-T-14")
def test_entities_decisions_and_intents_survive_compaction(done: Run) -> None:
    """Of the first turn of a long conversation, which the rolling summary has replaced."""
    compacted = of_kind(done, Kind.COMPACTION)

    assert {"compaction-early-decision", "compaction-early-intent"} < {one.case_id for one in compacted if one.exact}
    assert all(one.observed.summary_written for one in compacted)
    assert sum(one.recalled for one in compacted if one.exact) == sum(one.needed for one in compacted if one.exact) > 0


@requirement("PC2-T-16")
def test_every_intent_of_a_mixed_message_reaches_its_sub_agent_and_the_answer(done: Run) -> None:
    """At once in one response; two and three sub-agents."""
    mixed = [one for one in of_kind(done, Kind.MIXED) if len(one.wanted) > 1]

    assert {len(one.wanted) for one in mixed} == {2, 3}
    assert figures_of(mixed).passed.value == 1.0
    assert figures_of(mixed).intents.value == 1.0


@requirement("PC2-T-17", "PC2-D-58")
def test_partial_failures_keep_what_succeeded_and_admit_what_did_not(done: Run) -> None:
    """Errors and missing data, one of two and all, in four languages; the model states each, and nothing else."""
    failures = of_kind(done, Kind.FAILURE)

    assert {one.language for one in failures} >= {"en", "de", "fr", "es"}
    found = figures_of(failures)
    assert (found.admitted.value, found.stated.value, found.noted.value, found.falsely_stated.value) == (1, 1, 0, 0)
    assert done.metrics.all.false_admissions.hits == 0


@requirement("PC2-D-57")
def test_time_to_the_first_status_event_and_to_the_answer_is_measured_for_each_sub_agent(done: Run) -> None:
    """The status event comes first; every turn that asks a sub-agent shows one."""
    for figures in done.metrics.by_slot.values():
        first, answer = figures.seconds_to_status, figures.seconds_to_answer
        assert first.p50 is not None
        assert answer.p50 is not None
        assert 0 < first.p50 <= answer.p50
        assert figures.status_events.mean is not None
        assert figures.status_events.mean >= 0.9


@requirement("PC2-D-57")
def test_the_longest_silence_is_measured_in_each_turn(done: Run) -> None:
    """Between the message, what is shown, and the answer: a part of the turn, if anything was shown before its end."""
    for one in (trial.observed for trial in done.trials if trial.observed.status_events):
        shown = one.status_events + 3  # with what is said before the calls, a note, and the answer
        assert one.seconds_to_answer / shown <= one.longest_silence < one.seconds_to_answer


def test_small_talk_calls_nothing_in_any_language(done: Run) -> None:
    """Five languages."""
    talk = of_kind(done, Kind.SMALL_TALK)

    assert {one.language for one in talk} == {"en", "de", "es", "fr", "it"}
    assert [one.observed.called for one in talk] == [()] * len(talk)


def test_instructions_in_what_a_sub_agent_said_call_nobody(done: Run) -> None:
    """The router cannot be told by narration; by a quote in the user's own message it can, which the set shows."""
    failed = {one.case_id for one in of_kind(done, Kind.INJECTION) if not one.passed}

    assert failed == {"injection-quoted"}


@requirement("PC1-T-13", "PC2-T-18", "PC1-OBS-5")
def test_the_quality_of_answers_is_scored_for_each_vertical(done: Run) -> None:
    """Without a judge model, by the facts that the answer kept; safety and format beside it."""
    found = {slot: gate_metrics(done, slot) for slot in ("shop", "rewards", "support")}

    assert all(one["quality"] >= 0.9 for one in found.values())
    assert [one["format_compliance"] for one in found.values()] == [1.0] * 3
    assert [one["safety"] for one in found.values()] == [1.0, 0.8, 0.8333]


def test_the_run_is_labelled_offline_and_says_what_it_costs(done: Run) -> None:
    """Tokens are an estimate, at the prices of the configuration."""
    assert done.offline
    assert done.metrics.all.cost.mean is not None
    assert done.metrics.all.cost.mean > 0


async def test_the_same_cases_give_the_same_routing_each_time(done: Run) -> None:
    """In another sidecar, with other ids, fewer cases beside them, and a provider with a cache: only tokens show it."""
    wish = Measuring(folder=EXAMPLE, choice=CaseSelection(ids=["mixed-*", "recall-*"]))
    second = await run(prepare(wish), wish, models=Models(cached := Caching(), cached))
    again = {one.case_id: (one.observed.called, one.failures) for one in second.trials}
    before = {one.case_id: (one.observed.called, one.failures) for one in done.trials if one.case_id in again}
    tokens = second.metrics.all

    assert len(again) > 10
    assert again == before
    assert tokens.input_tokens.mean is not None
    assert tokens.cached_input_tokens.mean == pytest.approx(tokens.input_tokens.mean / 2, rel=0.01)
    assert done.metrics.all.cached_input_tokens.mean is None


async def test_a_definition_that_no_user_is_served_yet_is_measured_too(tmp_path: Path) -> None:
    """Behind a flag, and the candidate for a slot that another definition fills."""
    config = tmp_path / "config"
    text = (EXAMPLE / "agent_config.yaml").read_text("utf-8")
    _, shop, rest = text.partition("  - id: shop\n")
    head = "  - id: shop-new\n    slot: shop\n    enabled_via_flag: ai_assistant_subagent_shop-new\n"
    copied = shop.replace("  - id: shop\n", head) + rest.partition("\n  - id: rewards\n")[0]
    shutil.copytree(EXAMPLE / "prompts", config / "prompts")
    (config / "agent_config.yaml").write_text(f"{text}\n{copied}\n", "utf-8")
    wish = Measuring(
        folder=config, sets=EXAMPLE / "evals", candidates=["shop-new"], choice=CaseSelection(ids=["shop-coffee"])
    )

    found = await run(prepare(wish), wish)

    assert [one.id for one in found.definitions if one.slot == "shop"] == ["shop-new"]
    assert found.trials[0].exact


@requirement("PC1-T-21", "PC1-T-14")
async def test_a_poor_summary_shows_in_what_reaches_the_sub_agent(done: Run) -> None:
    """A summary model that forgets what was agreed: the cases are still routed, and their entities are lost."""
    wish = Measuring(folder=EXAMPLE, choice=CaseSelection(ids=["compaction-*"]))
    good = figures_of(of_kind(done, Kind.COMPACTION))
    poor = await run(prepare(wish), wish, models=Models(LexicalRouter(), Forgetful()))

    assert good.entities.hits >= 2
    assert poor.metrics.all.routing.hits == good.routing.hits
    assert poor.metrics.all.entities.hits == 0
    assert all("was not given" in str(one.failures) for one in poor.trials)


class Caching(LexicalRouter):
    """Has read half of each prompt from a cache."""

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        result = super()._generate(messages, stop, run_manager, **kwargs)
        message = result.generations[0].message
        assert isinstance(message, AIMessage)
        assert message.usage_metadata is not None
        message.usage_metadata["input_token_details"] = {"cache_read": message.usage_metadata["input_tokens"] // 2}
        return result


class Forgetful(LexicalRouter):
    """Sums every conversation up in the same words."""

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("They talked about this and that."))])
