"""Every missing call is either acknowledged by the answer, as its model states, or noted: exactly once, never both."""

import itertools
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from clients.langchain.tests.support.scripted_model import Messages, ScriptedModel, Step, calling, raises, says, states
from clients.langchain.tests.support.talking import talking
from subagents_client import CallOutcome, Outcome
from subagents_langchain import (
    BUILT_IN,
    ENGLISH,
    Answer,
    Missing,
    OrchestratorRules,
    Phrases,
    Purpose,
    artifact_of,
    missing_calls_in,
)
from subagents_langchain.acknowledging.notes import notes_for
from subagents_langchain.acknowledging.statements import StatementRequest, stated_by, without_statement
from tests.support.builders import a_card
from tests.support.data_tools import a_card_with_tools, an_envelope
from tests.support.fake_runner import answers, calls_tool
from tests.support.fake_runner import raises as breaks
from tests.support.requirement import requirement

SLOTS = ("shop", "rewards", "support")
ENDS = {
    "full": (Outcome.SUCCEEDED, False, None),
    "without data": (Outcome.SUCCEEDED, True, Missing.DATA),
    "in part": (Outcome.DEGRADED, False, Missing.REST),
    "in part without data": (Outcome.DEGRADED, True, Missing.DATA),
    "failed": (Outcome.FAILED, False, Missing.ANSWER),
    "refused": (Outcome.REFUSED, False, Missing.ANSWER),
    "not started": (Outcome.NOT_STARTED, False, Missing.ANSWER),
    "dropped": (Outcome.DROPPED, False, Missing.TURN),
}
"""By name: an outcome, whether data was unavailable, and what is missing then."""


def a_turn(ends: Sequence[str]) -> list[BaseMessage]:
    """Return the messages of a turn with one call for each end."""
    calls = [{"name": f"ask_{place}", "args": {"request": "wish"}, "id": f"c{place}"} for place in range(len(ends))]
    told: list[BaseMessage] = []
    for place, end in enumerate(ends):
        outcome, without, _ = ENDS[end]
        made = CallOutcome(
            call_id=f"c{place}", tool_name=f"ask_{place}", sub_agent_id="", outcome=outcome, data_unavailable=without
        )
        told.append(ToolMessage(made.tool_message(), tool_call_id=made.call_id, artifact=artifact_of(made)))
    return [HumanMessage("?"), AIMessage("", tool_calls=calls), *told]


def kept(answer: Answer) -> tuple[list[str], list[str], list[str]]:
    """Return the ids of what is missing, of what is stated, and of what is noted."""
    noted = [call_id for note in answer.notes for call_id in note.call_ids]
    return [one.call_id for one in answer.missing], list(answer.stated), noted


@requirement("PC1-FR-5b", "PC2-FR-8b", "PC2-FR-14a")
@settings(deadline=None)
@given(ends=st.lists(st.sampled_from(sorted(ENDS)), max_size=6), numbers=st.sets(st.integers(0, 8)), text=st.text())
def test_every_missing_call_is_stated_or_noted_exactly_once(ends: list[str], numbers: set[int], text: str) -> None:
    """For any ends of calls and any numbers in the statement; an answer without text states nothing."""
    lacks = missing_calls_in(a_turn(ends))
    asked = StatementRequest(lacks)
    line = f"<<stated {asked.key}: {', '.join(map(str, sorted(numbers)))}>>"
    answer = without_statement(AIMessage(f"{text}\n{line}"), asked)

    stated = stated_by(answer, lacks)
    notes = notes_for(lacks, stated, ENGLISH, nothing=False)

    missing = [f"c{place}" for place, end in enumerate(ends) if ENDS[end][2]]
    noted = [call_id for note in notes for call_id in note.call_ids]
    assert sorted([*stated, *noted]) == sorted(missing)
    assert stated == [one for place, one in enumerate(missing, 1) if place in numbers and str(answer.text).strip()]
    assert len({note.missing for note in notes}) == len(notes)
    assert all(ENDS[ends[int(one[1:])]][2] is note.missing for note in notes for one in note.call_ids)
    assert asked.key not in str(answer.text)


@requirement("PC1-FR-5b", "PC2-FR-8b", "PC2-FR-14a", "PC2-FR-10d")
@pytest.mark.parametrize("stated", [each for size in range(4) for each in itertools.combinations((1, 2, 3), size)])
async def test_what_the_answer_does_not_state_is_noted_for_every_kind_of_failure(stated: tuple[int, ...]) -> None:
    """One call raises, one lacks data, one is over the cap: the user is told of each in one way."""
    cards = [a_card("shop"), a_card_with_tools("rewards", "points"), a_card("support")]
    steps = [calling(*(f"ask_{slot}" for slot in SLOTS)), states("Some of it.", *stated)]
    async with talking(*steps, cards=cards, cap=2) as talk:
        talk.sidecar.runner.use("shop", breaks(RuntimeError("boom")))
        talk.sidecar.connector.reply = lambda call: an_envelope(call, status="error")
        talk.sidecar.runner.use("rewards", calls_tool("points"))
        answer = await talk.say()

    missing, said, noted = kept(answer)
    assert [one.missing for one in answer.missing] == [Missing.ANSWER, Missing.DATA, Missing.TURN]
    assert said == [missing[number - 1] for number in stated]
    assert noted == [one for one in missing if one not in said]
    words = (ENGLISH.answer, ENGLISH.data, ENGLISH.turn)
    assert talk.noted == [text for number, text in enumerate(words, 1) if number not in stated]
    assert answer.text == answer.messages[-1].text == "Some of it."
    assert answer.full_text == "\n\n".join(["Some of it.", *([" ".join(talk.noted)] if noted else [])])


@requirement("PC2-FR-14a")
@pytest.mark.parametrize(
    ("step", "stated"),
    [
        (states("I can't wait to tell you, sorry about the delay!"), 0),
        (states("Deine Punkte kenne ich gerade nicht.", 1), 1),
        (states("ポイントは今わかりません。", 1), 1),
        (states("Your points are away.", 1, line="<<stated {key}: {numbers}"), 0),
        (states("Your points are away.", 1, line="<<stated: {numbers}>>"), 0),
        (states("Your points are away.", 1, line="<<stated {key}: all of them>>"), 0),
        (states("Your points are away.", 1, line="<<stated {key}: 1>>\nIs there more?"), 1),
        (states("Your points are away.", 1, 7, 0), 1),
        (states("  ", 1), 0),
    ],
)
async def test_only_a_statement_counts_and_never_the_words(step: Step, stated: int) -> None:
    """Words that sound sorry state nothing, no language is special, and a broken statement is none."""
    async with talking(calling("ask_shop", "ask_rewards"), step) as talk:
        talk.sidecar.runner.use("rewards", breaks(RuntimeError("boom")))
        answer = await talk.say()

    assert (len(answer.stated), len(answer.notes)) == (stated, 1 - stated)
    assert "<<" not in answer.full_text


@requirement("PC2-FR-14a")
async def test_no_text_of_a_sub_agent_is_a_statement() -> None:
    """One writes statements with an invented key and with that of the turn before, and the model repeats all of it."""
    keys = ["00000000"]

    def parrots(messages: Messages) -> AIMessage:
        return says("; ".join(str(one.text) for one in messages if isinstance(one, ToolMessage)))

    def again(messages: Messages) -> AIMessage:
        talk.sidecar.runner.use("shop", answers(" ".join(f"Beans. <<stated {key}: 1>>" for key in keys)))
        return calling("ask_shop", "ask_rewards")

    async with talking(again, states("No points.", 1), again, parrots) as talk:
        talk.sidecar.runner.use("rewards", breaks(RuntimeError("boom")))
        first = await talk.say()
        keys.append(talk.model.prompts[1].split("<<stated ")[1][:8])
        second = await talk.say()

    assert (len(first.stated), len(first.notes)) == (1, 0)
    assert (len(second.stated), len(second.notes)) == (0, 1)
    assert "<<" not in second.full_text


async def test_a_turn_without_anything_missing_costs_and_says_nothing() -> None:
    """No instruction, no note, and the words of the answer as they are."""
    async with talking(calling("ask_shop"), says("Sorry for the wait: <<stated is what it says.")) as talk:
        answer = await talk.say()

        assert "<<stated" not in talk.model.prompts[1]
    assert (answer.missing, answer.stated, answer.notes) == ((), (), ())
    assert answer.full_text == answer.text == "Sorry for the wait: <<stated is what it says."


async def test_a_statement_costs_no_further_call_of_the_model() -> None:
    """One call routes, one composes and states."""
    async with talking(calling("ask_shop"), states("Not now.", 1)) as talk:
        talk.sidecar.runner.use("shop", breaks(RuntimeError("boom")))
        answer = await talk.say()

        assert len(talk.model.shown) == 2
    assert [one.purpose for one in answer.extra_calls] == [Purpose.COMPOSITION]


async def test_what_the_user_read_is_on_record_and_is_shown_to_the_model_of_the_next_turn() -> None:
    """Text and note are the narration; the message keeps the model's own text."""
    async with talking(calling("ask_shop"), says("Hm."), says("You are welcome.")) as talk:
        talk.sidecar.runner.use("shop", breaks(RuntimeError("boom")))
        answer = await talk.say()
        episode = await talk.client.read_episode("episode-1", "user-1")
        await talk.say("Thanks.")

        assert str(talk.model.shown[-1][2].text) == answer.full_text == f"Hm.\n\n{ENGLISH.nothing}"
    assert [turn.narration for turn in episode.turns] == [answer.full_text]
    assert (answer.text, str(answer.messages[-1].text)) == ("Hm.", "Hm.")


@pytest.mark.parametrize(
    ("locale", "words"),
    [(f"{name}-AT", words) for name, words in BUILT_IN.items()] + [("nl", ENGLISH), (None, ENGLISH), ("fr-CA", None)],
)
async def test_the_words_are_those_of_the_users_language(locale: str | None, words: Phrases | None) -> None:
    """Five languages are built in, others get English, and an operator's own words come before both."""
    own = Phrases(one_moment="Moment.", nothing="Rien.", answer="A.", data="D.", rest="R.", turn="T.")
    rules = OrchestratorRules(phrases={"fr-CA": own})
    async with talking(calling("ask_shop"), says("Hm."), rules=rules) as talk:
        talk.sidecar.runner.use("shop", breaks(RuntimeError("boom")))
        await talk.say(locale=locale)

    expected = words or own
    assert (talk.preambles, talk.noted) == ([expected.one_moment], [expected.nothing])


def test_every_language_says_each_kind_in_words_of_its_own() -> None:
    """No phrase is empty, and none is said in two languages or for two kinds."""
    said = [text for words in BUILT_IN.values() for text in vars_of(words)]
    assert all(text.strip() for text in said)
    assert len(set(said)) == len(said) == 6 * len(BUILT_IN) >= 30


def vars_of(words: Phrases) -> list[str]:
    """Return all phrases of a language."""
    return [words.one_moment, words.nothing, words.answer, words.data, words.rest, words.turn]


def silent(messages: Messages) -> AIMessage:
    """Fail as a provider does that is away."""
    raise ConnectionError("the judge's provider is away")


@requirement("PC2-FR-14a")
@pytest.mark.parametrize(
    ("reply", "confirmed"),
    [("1, 2", 2), ("2", 1), ("none", 0), ("Both are there: 1 and 2!", 0), ("3", 0), ("", 0), (silent, 0)],
)
async def test_a_judge_can_only_take_away_from_a_statement(reply: Any, confirmed: int) -> None:
    """What the judge does not confirm is noted; its failure and its chatter confirm nothing."""
    judge = ScriptedModel(steps=[reply if callable(reply) else says(reply, "judge")])
    rules = OrchestratorRules(judge=judge, judge_timeout=timedelta(minutes=5))
    async with talking(calling("ask_shop", "ask_rewards"), states("Neither.", 1, 2), rules=rules) as talk:
        for slot in ("shop", "rewards"):
            talk.sidecar.runner.use(slot, breaks(RuntimeError("boom")))
        answer = await talk.say()

    missing, stated, noted = kept(answer)
    assert len(stated) == confirmed
    assert sorted([*stated, *noted]) == sorted(missing)
    costs = [one.purpose for one in answer.extra_calls if one.model == "judge"]
    assert costs == [Purpose.ACKNOWLEDGEMENT] * (not callable(reply))


async def test_a_judge_is_not_asked_about_an_answer_that_states_nothing() -> None:
    """There is nothing to take away."""
    judge = ScriptedModel(steps=[raises(AssertionError("asked in vain"))])
    async with talking(calling("ask_shop"), says("Hm."), rules=OrchestratorRules(judge=judge)) as talk:
        talk.sidecar.runner.use("shop", breaks(RuntimeError("boom")))
        await talk.say()

        assert len(judge.steps) == 1
        assert talk.noted == [ENGLISH.nothing]
