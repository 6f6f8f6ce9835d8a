"""Long conversations: a summary takes the place of the older turns, written when it is due and never otherwise."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from clients.langchain.tests.support.scripted_model import Messages, Step, calling, composes, raises, says
from clients.langchain.tests.support.talking import Talk, talking
from subagents_client import Episode
from subagents_langchain import Compacted, CompactionRules, ExtraCall, OrchestratorRules, Price, Purpose
from tests.support.history import MemoryThatCanBeAway, rendering_cards, renders, rules, write_summary
from tests.support.requirement import requirement

SUMMARY = "The user is Ada and has order 4711."
SIDECAR = rules(above_turns=3, recent_turns=2)
"""Due from the fifth turn on: four are kept then."""


class Seen:
    """What a host counts: extra calls, and what came of compactions."""

    def __init__(self, **compaction: Any) -> None:
        self.calls: list[ExtraCall] = []
        self.outcomes: list[Compacted] = []
        chosen = CompactionRules(recent_turns=2, read_timeout=timedelta(seconds=5), on_compaction=self.outcomes.append)
        self.rules = OrchestratorRules(
            prices={"small": Price(Decimal(1), Decimal(1))},
            on_extra_call=self.calls.append,
            compaction=replace(chosen, **compaction),
        )


def answers_to(count: int) -> list[Step]:
    """Return a script of small talk."""
    return [says(f"answer {number}") for number in range(1, count + 1)]


async def turns(talk: Talk, count: int, first: int = 1) -> None:
    """Have some turns; each is over, its compaction too, before the next one begins."""
    for number in range(first, first + count):
        await talk.say(f"question {number}", turn_id=f"t-{number}")
        await talk.orchestrator.settled()


async def episode(talk: Talk) -> Episode:
    """Read what the sidecar keeps."""
    return await talk.client.read_episode("episode-1", "user-1")


def said_to(messages: Messages) -> Sequence[str]:
    """Return what a model was shown beside its system prompt."""
    return [str(one.text) for one in messages[1:]]


@requirement("PC1-NFR-7a", "PC1-NFR-7b", "PC1-FR-11a", "PC1-FR-11c")
async def test_a_summary_is_written_exactly_when_it_is_due_and_its_call_is_counted() -> None:
    """Four turns call no model beside; the fifth does once; the two most recent turns stay as they are."""
    seen = Seen()
    script = answers_to(6)
    async with talking(
        *script, summaries=[says(SUMMARY, model="small")], rules=seen.rules, dispatching=SIDECAR
    ) as talk:
        await turns(talk, 4)
        assert (seen.calls, talk.summary_model.shown) == ([], [])
        await turns(talk, 2, first=5)
        kept = await episode(talk)

    assert seen.calls == [ExtraCall(Purpose.COMPACTION, "small", 1000, 100, Decimal("0.0011"))]
    assert seen.outcomes == [Compacted.WRITTEN]
    assert kept.summary is not None
    assert (kept.summary.text, kept.summary.up_to_turn_id) == (SUMMARY, "t-3")
    said = [(turn.user_message, turn.narration) for turn in kept.turns]
    assert said == [(f"question {number}", f"answer {number}") for number in (4, 5, 6)]


@requirement("PC1-D-31", "PC1-FR-11b")
async def test_the_summary_takes_the_place_of_the_older_turns_for_the_model() -> None:
    """In the sixth turn the model reads it in its prompt, and turns four and five word for word."""
    async with talking(*answers_to(6), summaries=[says(SUMMARY)], rules=Seen().rules, dispatching=SIDECAR) as talk:
        await turns(talk, 6)

        assert said_to(talk.model.shown[5]) == ["question 4", "answer 4", "question 5", "answer 5", "question 6"]
        assert [SUMMARY in prompt for prompt in talk.model.prompts] == [False] * 5 + [True]
        assert len(talk.history) == 12


async def test_a_second_summary_is_made_of_the_first_and_of_the_turns_after_it() -> None:
    """And of the ids of what was shown, so that they are not lost; tokens stay out of the user's stream."""
    script: list[Step] = [*answers_to(4), calling("ask_shop"), composes, *answers_to(4)]
    async with talking(
        *script,
        summaries=[says(SUMMARY), says("Second.")],
        rules=Seen().rules,
        dispatching=SIDECAR,
        cards=rendering_cards(),
    ) as talk:
        talk.sidecar.runner.use("shop", renders("Two offers."))
        await turns(talk, 9)
        kept = await episode(talk)
        first, second = talk.summary_model.shown

    assert said_to(first) == [
        "User: question 1\nAssistant: answer 1\n\nUser: question 2\nAssistant: answer 2\n\n"
        "User: question 3\nAssistant: answer 3"
    ]
    assert said_to(second)[0].startswith(f"Summary so far:\n{SUMMARY}\n\nUser: question 4\nAssistant: answer 4\n\n")
    assert "Shown to the user: offer-1, offer-2" in said_to(second)[0]
    assert kept.revision == 2
    assert all("nostream" in tags for tags in talk.summary_model.marked)


async def test_the_answer_does_not_wait_for_the_summary() -> None:
    """The model that writes it hangs: the fifth and sixth turn are answered, and only one summary is begun."""
    let_go = asyncio.Event()

    async def hangs(messages: Messages) -> AIMessage:
        await let_go.wait()
        return says(SUMMARY)

    seen = Seen()
    async with talking(*answers_to(6), summaries=[hangs], rules=seen.rules, dispatching=SIDECAR) as talk:
        await turns(talk, 4)
        texts = [(await talk.say(f"question {number}")).text for number in (5, 6)]
        before = list(seen.outcomes)
        let_go.set()
        await talk.orchestrator.settled()

    assert (texts, before, seen.outcomes) == (["answer 5", "answer 6"], [], [Compacted.WRITTEN])


async def test_of_two_writers_the_slower_one_gives_way() -> None:
    """Another replica writes while the model sums up: theirs stands, ours is skipped and counted."""
    seen = Seen()
    async with talking(*answers_to(5), summaries=[says(SUMMARY)], rules=seen.rules, dispatching=SIDECAR) as talk:

        async def is_outrun(messages: Messages) -> AIMessage:
            await write_summary(talk.sidecar, "t-3", text="Theirs.")
            return says(SUMMARY)

        talk.summary_model.steps = [is_outrun]
        await turns(talk, 5)
        kept = await episode(talk)

    assert seen.outcomes == [Compacted.OUTRUN]
    assert [call.purpose for call in seen.calls] == [Purpose.COMPACTION]
    assert kept.summary is not None
    assert kept.summary.text == "Theirs."


@pytest.mark.parametrize("bad", [raises(ConnectionError("CANARY")), says(" "), says('<component type="x">{}')])
async def test_a_summary_that_cannot_be_had_fails_no_turn_and_is_tried_again(bad: Step) -> None:
    """The provider raises, says nothing, or says what may not be kept; after the next turn it is written."""
    seen = Seen()
    summaries = [bad, says(SUMMARY)]
    async with talking(*answers_to(6), summaries=summaries, rules=seen.rules, dispatching=SIDECAR) as talk:
        await turns(talk, 6)
        kept = await episode(talk)

    assert seen.outcomes == [Compacted.FAILED, Compacted.WRITTEN]
    assert kept.summary is not None
    assert (kept.summary.text, kept.summary.up_to_turn_id) == (SUMMARY, "t-4")


async def test_an_orchestrator_with_too_small_a_number_of_recent_turns_learns_the_sidecars() -> None:
    """One refusal, then its summaries are taken."""
    seen = Seen(recent_turns=1)
    async with talking(
        *answers_to(6), summaries=[says(SUMMARY), says(SUMMARY)], rules=seen.rules, dispatching=SIDECAR
    ) as talk:
        await turns(talk, 6)
        kept = await episode(talk)

    assert seen.outcomes == [Compacted.FAILED, Compacted.WRITTEN]
    assert [turn.turn_id for turn in kept.turns] == ["t-5", "t-6"]


async def test_switched_off_no_summary_is_written_or_read() -> None:
    """Though it is due, and though somebody else has written one."""
    off = OrchestratorRules(compaction=None)
    async with talking(*answers_to(6), rules=off, dispatching=SIDECAR) as talk:
        await turns(talk, 5)
        await write_summary(talk.sidecar, "t-3", text="Theirs.")
        await turns(talk, 1, first=6)

        assert talk.summary_model.shown == []
        assert "Theirs." not in talk.model.prompts[-1]
        assert len(said_to(talk.model.shown[-1])) == 11


async def test_a_memory_that_is_away_costs_a_turn_nothing_but_the_summary() -> None:
    """All messages are given to the model, as without a summary."""
    memory = MemoryThatCanBeAway()
    async with talking(
        *answers_to(6), summaries=[says(SUMMARY)], rules=Seen().rules, dispatching=SIDECAR, memory=memory
    ) as talk:
        await turns(talk, 5)
        memory.away = True
        answer = await talk.say("question 6")
        memory.away = False

        assert len(said_to(talk.model.shown[-1])) == 11
    assert answer.text == "answer 6"


@pytest.mark.parametrize("shortened", [-1, -3])
async def test_turns_that_the_memory_does_not_know_by_their_words_are_not_taken_away(shortened: int) -> None:
    """The host has shortened an answer of its history: the model gets the summary, and all messages."""
    async with talking(*answers_to(6), summaries=[says(SUMMARY)], rules=Seen().rules, dispatching=SIDECAR) as talk:
        await turns(talk, 5)
        talk.history[shortened] = says("answer")
        await turns(talk, 1, first=6)

        assert len(said_to(talk.model.shown[-1])) == 11
        assert SUMMARY in talk.model.prompts[-1]


async def test_prior_context_is_made_of_the_summary_too() -> None:
    """What the user said before the summary is known to a sub-agent that is asked for the first time."""
    script = [calling("ask_shop"), says("answer 1"), *answers_to(5)[1:], calling("ask_support"), composes]
    summaries = [says(SUMMARY), says("Context.")]
    async with talking(*script, summaries=summaries, rules=Seen().rules, dispatching=SIDECAR) as talk:
        await turns(talk, 6)
        prompt = talk.summary_model.prompts[1]

        assert SUMMARY in prompt
        assert said_to(talk.summary_model.shown[1])[0] == "question 4"
        assert talk.sidecar.runner.request_of("support").context.prior_context == "Context."


async def test_the_end_of_a_turn_says_what_the_user_said() -> None:
    """Small talk has no task prompt that the sidecar could take it from."""
    async with talking(says("Hello!")) as talk:
        await talk.say("¡Hola!")
        (turn,) = (await episode(talk)).turns

    assert (turn.user_message, turn.narration) == ("¡Hola!", "Hello!")
