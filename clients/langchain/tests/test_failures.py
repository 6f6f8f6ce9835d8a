"""Failures of all three axes, over the cap, and intents that were not called: said in words, never as errors."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from clients.langchain.tests.support.scripted_model import Messages, Step, calling, composes, says, states
from clients.langchain.tests.support.talking import Talk, routed, talking
from subagents.errors.v1.error_reason_pb2 import ErrorReason
from subagents_client import Outcome, TurnRequest
from subagents_errors import CallFailure
from subagents_langchain import ENGLISH, MissingNote, Preamble, Purpose, StatusLine
from tests.support.builders import a_card, with_limits
from tests.support.data_tools import a_card_with_tools, an_envelope
from tests.support.fake_runner import answers, calls_tool, hangs, looks_twice, meets, raises
from tests.support.requirement import requirement

CANARY = "CANARY-7f3a"
SLOTS = ("shop", "rewards", "support")


def seen_by_models_and_users(talk: Talk, answer: object) -> str:
    """Return everything that a model was shown or a user could read."""
    return f"{talk.model.shown} {talk.events} {answer}"


@requirement("PC2-T-25", "PC1-T-9", "PC1-FR-5b", "PC1-FR-5c")
async def test_an_exception_is_acknowledged_in_words_and_its_text_is_nowhere() -> None:
    """One raises, the other answers; the model states nothing, so the user is told beside its text."""
    async with talking(calling("ask_shop", "ask_rewards"), composes) as talk:
        talk.sidecar.runner.use("rewards", raises(RuntimeError(CANARY)))
        answer = await talk.say()

        assert CANARY not in seen_by_models_and_users(talk, answer)
    assert answer.full_text == f"Here is what I found: hello from shop\n\n{ENGLISH.answer}"
    assert talk.noted == [ENGLISH.answer]
    assert answer.text == answer.messages[-1].text == "Here is what I found: hello from shop"
    assert [one.status for one in answer.messages if isinstance(one, ToolMessage)] == ["success", "error"]
    assert routed(answer) == [("shop", "succeeded"), ("rewards", "failed")]


@requirement("PC2-T-26", "PC1-T-18", "PC2-T-10")
async def test_a_timeout_is_acknowledged_as_an_exception_is() -> None:
    """One never ends, and its sibling's answer is there."""
    slow = with_limits(a_card("rewards"), attempt_timeout=timedelta(milliseconds=50))
    cards = [a_card("shop"), slow, a_card("support")]
    async with talking(calling("ask_shop", "ask_rewards"), composes, cards=cards) as talk:
        talk.sidecar.runner.use("rewards", hangs())
        answer = await talk.say()

    assert answer.full_text == f"Here is what I found: hello from shop\n\n{ENGLISH.answer}"


async def test_a_turn_whose_only_call_failed_says_that_it_could_not_help() -> None:
    """Nothing was answered at all, so the sentence is another one. Source: PC2-D-38."""
    async with talking(calling("ask_shop"), composes) as talk:
        talk.sidecar.runner.use("shop", raises(RuntimeError(CANARY)))
        answer = await talk.say()

    assert answer.full_text == f"Hm.\n\n{ENGLISH.nothing}"


@requirement("PC2-T-12", "PC2-T-27", "PC2-AC-5a", "PC2-AC-5b")
@pytest.mark.parametrize(("status", "noted"), [("ok", []), ("partial", []), ("error", [ENGLISH.data])])
async def test_each_status_of_an_envelope_shows_in_the_answer_as_it_should(status: str, noted: list[str]) -> None:
    """Only `error` is data unavailable, and what the envelope says about it is nobody's business."""
    cards = [a_card_with_tools("shop", "offers")]
    async with talking(calling("ask_shop"), composes, cards=cards) as talk:
        talk.sidecar.connector.reply = lambda call: an_envelope(
            call, status=status, partial=[{"source": CANARY}], error={"code": CANARY}
        )
        talk.sidecar.runner.use("shop", calls_tool("offers"))
        answer = await talk.say()

        assert CANARY not in seen_by_models_and_users(talk, answer)
    assert talk.noted == noted
    assert answer.results[0].outcomes[0].data_unavailable is (status == "error")
    told = [str(one.content) for one in answer.messages if isinstance(one, ToolMessage)]
    assert ("data needed for this answer was unavailable" in told[0]) is (status == "error")


@requirement("PC2-T-28", "PC2-AC-6b")
async def test_data_of_another_user_is_withheld_counted_and_acknowledged() -> None:
    """The envelope names somebody else: no byte of it arrives anywhere, and the user is told in words."""
    cards = [a_card_with_tools("shop", "offers")]
    async with talking(calling("ask_shop"), composes, cards=cards) as talk:
        talk.sidecar.connector.reply = lambda call: an_envelope(call, principal="user-2", payload={"secret": CANARY})
        talk.sidecar.runner.use("shop", calls_tool("offers"))
        answer = await talk.say()

        assert CANARY not in seen_by_models_and_users(talk, answer)
        assert len(talk.sidecar.connector.calls) == 1
        assert [name for name, _ in talk.sidecar.recorder.told if "mismatch" in name] == ["principal_mismatch"]
    assert answer.full_text.endswith(ENGLISH.data)


@requirement("PC2-T-11")
async def test_the_principal_is_the_same_from_the_session_to_the_data_service() -> None:
    """As bound, as given to the sub-agent, as put into the data request; and the answer is for that user."""
    cards = [a_card_with_tools("shop", "offers")]
    async with talking(calling("ask_shop"), composes, cards=cards) as talk:
        talk.sidecar.connector.reply = an_envelope
        talk.sidecar.runner.use("shop", calls_tool("offers"))
        answer = await talk.say(principal="user-77")

        assert talk.sidecar.runner.request_of("shop").context.principal == "user-77"
        assert [call.principal for call in talk.sidecar.connector.calls] == ["user-77"]
    assert answer.results[0].outcomes[0].outcome is Outcome.SUCCEEDED


@requirement("PC2-T-29", "PC2-AC-8", "PC2-FR-8b", "PC2-FR-14a")
@pytest.mark.parametrize("failing", range(4))
async def test_m_of_n_are_presented_and_the_rest_acknowledged(failing: int) -> None:
    """None, one, two or all of three fail; what is said about it is absent where nothing failed."""
    async with talking(calling(*(f"ask_{slot}" for slot in SLOTS)), composes) as talk:
        for slot in SLOTS[:failing]:
            talk.sidecar.runner.use(slot, raises(RuntimeError(CANARY)))
        answer = await talk.say()

    assert [slot in answer.text for slot in SLOTS] == [place >= failing for place in range(3)]
    assert talk.noted == [[], [ENGLISH.answer], [ENGLISH.answer], [ENGLISH.nothing]][failing]
    assert routed(answer) == [(slot, "failed" if place < failing else "succeeded") for place, slot in enumerate(SLOTS)]


FOUR = ("ask_shop", "ask_rewards", "ask_support", "ask_travel")


@asynccontextmanager
async def everything_missing(*, composing: Step = composes) -> AsyncIterator[Talk]:
    """Data away, a sub-agent that raises, one cut short by its budget, and one over the cap: each kind at once."""
    cards = [
        a_card_with_tools("shop", "offers"),
        a_card("rewards"),
        with_limits(a_card_with_tools("support", "orders"), tool_calls=1),
        a_card("travel"),
    ]
    async with talking(calling(*FOUR), composing, cards=cards, cap=3) as talk:
        talk.sidecar.connector.reply = lambda call: (
            an_envelope(call)
            if call.enricher_id == "orders"
            else an_envelope(call, status="error", error={"code": CANARY})
        )
        talk.sidecar.runner.use("shop", calls_tool("offers"))
        talk.sidecar.runner.use("rewards", raises(RuntimeError(CANARY)))
        talk.sidecar.runner.use("support", looks_twice)
        yield talk


@requirement("PC2-FR-14a")
async def test_each_missing_answer_is_acknowledged_and_not_only_the_first() -> None:
    """The model says nothing of the kind; each of the four kinds is told to it, and said to the user."""
    async with everything_missing() as talk:
        answer = await talk.say()

        composing = talk.model.prompts[-1]
    outcomes = [outcome for _, outcome in routed(answer)]
    assert outcomes == ["degraded", "failed", "degraded", "dropped"]
    assert [f". {name}('about {name}'): " in composing for name in FOUR] == [True] * 4
    for sentence in (ENGLISH.data, ENGLISH.answer, ENGLISH.rest, ENGLISH.turn):
        assert sentence in answer.full_text


def repeats(messages: Messages) -> AIMessage:
    """Answer with every word that the tools said."""
    return says(" ".join(str(one.content) for one in messages if isinstance(one, ToolMessage)))


@requirement("PC2-FR-8c", "PC2-FR-14b")
async def test_no_code_and_no_exception_reaches_the_user_even_where_the_model_repeats_all_that_it_is_told() -> None:
    """Its answer, and what is streamed beside it, hold no text of an error, no reason and no payload of one."""
    async with everything_missing(composing=repeats) as talk:
        answer = await talk.say()

        read = f"{answer.full_text} {talk.lines} {talk.preambles} {talk.noted}"
        events = {type(one) for one in talk.events}
    codes = [CANARY, "RuntimeError", "Traceback", *ErrorReason.keys(), *(each.name for each in CallFailure)]
    assert [code for code in codes if code.removeprefix("ERROR_REASON_") in read] == []
    assert "{" not in read
    assert events <= {MissingNote, Preamble, StatusLine}


@requirement("PC2-FR-8c", "PC2-FR-14b")
async def test_the_composing_model_is_told_what_is_missing_in_words_that_hold_no_error() -> None:
    """Only the call that failed is named; the cached beginning of the prompt is the same in both calls."""
    async with talking(calling("ask_shop", "ask_rewards"), states("Your points are away for now.", 1)) as talk:
        talk.sidecar.runner.use("rewards", raises(RuntimeError(CANARY)))
        answer = await talk.say()

        routing, composing = talk.model.prompts
        prompt = (await talk.sidecar.bind()).surface.prompt
        assert CANARY not in seen_by_models_and_users(talk, answer)
    assert answer.full_text == answer.text == "Your points are away for now."
    assert "1. ask_rewards('about ask_rewards'): there is no answer right now" in composing
    assert "ask_shop('" not in composing
    assert routing == prompt.prefix + prompt.suffix
    assert composing.startswith(prompt.prefix)
    assert composing.endswith(prompt.suffix)


@requirement("PC2-T-30")
async def test_what_is_over_the_cap_is_left_for_later_and_said() -> None:
    """Cap 2 and three calls: two run, the third is on record, and the user may ask again."""
    async with talking(calling(*(f"ask_{slot}" for slot in SLOTS)), composes, cap=2) as talk:
        answer = await talk.say()

        assert talk.sidecar.runner.started == ["shop", "rewards"]
    assert answer.full_text.endswith(ENGLISH.turn)
    assert routed(answer)[2] == ("support", "dropped")
    assert answer.end is not None
    assert answer.end.routing_decision.cap.value == "over"


@requirement("PC1-T-20")
async def test_an_intent_without_a_call_is_caught_and_called_after_all() -> None:
    """Two intents declared, one called: the model is told once, and calls the other."""
    script = [calling("ask_shop", intents=2), calling("ask_rewards", intents=1), composes]
    async with talking(*script) as talk:
        answer = await talk.say("Offers and points?")

        assert ["2 intents, and you have asked 1" in prompt for prompt in talk.model.prompts] == [False, True, False]
    assert routed(answer) == [("shop", "succeeded"), ("rewards", "succeeded")]
    assert [one.purpose for one in answer.extra_calls] == [Purpose.MISSING_INTENT, Purpose.COMPOSITION]


async def test_the_model_is_asked_for_a_missing_intent_only_once_in_a_turn() -> None:
    """It goes on declaring more than it calls."""
    async with talking(calling("ask_shop", intents=3), calling("ask_shop", intents=3), composes) as talk:
        await talk.say()

        assert ["intents, and you have asked" in prompt for prompt in talk.model.prompts] == [False, True, False]


async def test_a_failure_that_a_later_call_makes_good_is_not_acknowledged() -> None:
    """The model asks the same sub-agent again, and it answers."""

    def again(messages: Messages) -> object:
        talk.sidecar.runner.use("shop", answers("Here."))
        return calling("ask_shop")

    async with talking(calling("ask_shop"), again, composes) as talk:
        talk.sidecar.runner.use("shop", raises(RuntimeError(CANARY)))
        answer = await talk.say()

    assert (answer.full_text, talk.noted) == ("Here is what I found: Here.", [])


async def test_a_cancelled_turn_stops_its_sub_agents_ends_and_the_next_one_is_fine() -> None:
    """The user goes away while two sub-agents run."""
    async with talking(calling("ask_shop", "ask_rewards"), says("Welcome back.")) as talk:
        talk.sidecar.runner.use("shop", hangs())
        talk.sidecar.runner.use("rewards", meets("shop"))
        turn = TurnRequest(principal="user-1", episode_id="episode-1")
        running = asyncio.ensure_future(talk.orchestrator.answer(turn, [HumanMessage("?")]))
        await talk.sidecar.runner.until_started("shop", "rewards")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await talk.sidecar.runner.until_cancelled("shop")

        assert len(talk.sidecar.recorder.of("turn_routed")) == 1
        assert (await talk.say()).text == "Welcome back."


async def test_a_turn_whose_model_fails_is_ended_all_the_same() -> None:
    """The provider is down when the answer is to be composed; its error is the caller's, and children are rejected."""

    def away(messages: Messages) -> object:
        raise ConnectionError("provider")

    async with talking(calling("ask_shop"), away) as talk:
        with pytest.raises(ConnectionError):
            await talk.say()

        ((record,),) = talk.sidecar.recorder.of("turn_routed")
        assert record.close_reason != "parent_lost"
