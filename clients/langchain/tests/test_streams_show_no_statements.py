"""Statements never reach a user, whichever way the answer is streamed."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain.agents.middleware import ModelFallbackMiddleware
from langchain_core.messages import AIMessageChunk, HumanMessage

from clients.langchain.tests.support.scripted_model import calling, raises, says, states
from clients.langchain.tests.support.streaming_model import StreamingModel
from clients.langchain.tests.support.talking import talking
from subagents_client import TurnRequest
from subagents_langchain import MissingNote, Orchestrator
from subagents_langchain.acknowledging.statements import LineFilter
from tests.support.fake_runner import raises as breaks
from tests.support.requirement import requirement

TURN = TurnRequest(principal="user-1", episode_id="episode-1")
PIECES = ("a", " ", "\n", "<", "<<", "<<sta", "ted", "<<stated", " 5f0c2a17: 1", ">", ">>", "<<stated 5f0c2a17: 1, 2>>")


def through(pieces: Sequence[str]) -> tuple[str, list[str]]:
    """Return what a filter shows of a text in these pieces, and the statements that it found."""
    lines = LineFilter()
    shown = "".join([*map(lines.feed, pieces), lines.rest()])
    return shown, lines.lines


@example(["<<sta", "<<stated 5f0c2a17: 1, 2>>"], 1)
@example(["<<stated", " ", "\n", "<<stated 5f0c2a17: 1, 2>>"], 1)
@example(["<<sta", " ", "<<stated 5f0c2a17: 1, 2>>"], 1)
@example(["<<sta", "<<stated 5f0c2a17: 1, 2>>", "ted"], 1)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12), st.integers(1, 5))
def test_a_text_in_pieces_is_shown_as_the_whole_text_is(pieces: list[str], size: int) -> None:
    """However it is cut; no line that begins as a statement is shown."""
    text = "".join(pieces)
    whole = through([text])
    assert through(pieces) == whole
    assert through([text[start : start + size] for start in range(0, len(text), size)]) == whole
    assert "<<stated" not in whole[0]


def test_text_that_only_looks_like_the_beginning_of_a_statement_is_shown() -> None:
    """Nothing of it is lost, and a line without an end does not stop the stream."""
    for text in ("1 < 2 and 3 << 4", "see <<st", "a <", "x << y\n", "trailing  \n"):
        assert through(list(text))[0] == (text if text != "see <<st" else "see")
    lines = LineFilter()
    assert lines.feed("<<stated" + "x" * 1000).endswith("x" * 500)


@requirement("PC2-FR-8c", "PC2-FR-14a")
@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("piece", [1, 2, 7, 100])
async def test_tokens_of_an_answer_are_its_text_and_hold_no_statement(piece: int, *, blocks: bool) -> None:
    """Streamed as messages; what is stated is known all the same, and what is not stated is an item of its own."""
    steps = [calling("ask_shop", "ask_rewards"), states("No beans today.\n\nSorry!", 1)]
    async with talking() as talk:
        for slot in ("shop", "rewards"):
            talk.sidecar.runner.use(slot, breaks(RuntimeError("boom")))
        model = StreamingModel(steps=steps, piece=piece, blocks=blocks)
        assistant = Orchestrator(talk.client, model, summary_model=talk.summary_model)
        streamed, items = await streamed_by(assistant)

    assert "".join(streamed) == "No beans today.\n\nSorry!"
    assert len(streamed) > 1 or piece == 100
    assert [len(one.call_ids) for one in items if isinstance(one, MissingNote)] == [1]


@requirement("PC2-FR-8c")
async def test_no_event_of_a_run_holds_a_statement() -> None:
    """`astream_events` shows the tokens and the ends of every model."""
    async with talking() as talk:
        talk.sidecar.runner.use("shop", breaks(RuntimeError("boom")))
        model = StreamingModel(steps=[calling("ask_shop"), states("Not now.", 1)])
        assistant = Orchestrator(talk.client, model, summary_model=talk.summary_model)
        told: list[Any] = []
        async with assistant.turn(TURN) as active:
            events = assistant.graph.astream_events({"messages": [HumanMessage("?")]}, context=active, version="v2")
            async for event in events:
                told += [event["data"].get("chunk")] if event["event"] == "on_chat_model_stream" else []
                told += [event["data"].get("output")] if event["event"].endswith("_end") else []

    assert "Not now." in str(told)
    assert "<<" not in str(told)
    assert len(active.stated) == 1


@requirement("PC2-FR-8c")
async def test_a_model_that_takes_over_inside_of_the_sidecar_shows_no_statement_either() -> None:
    """The first model's provider is away, and the fallback of another middleware composes."""
    spare = StreamingModel(steps=[states("Not now.", 1)])
    model = StreamingModel(steps=[calling("ask_shop"), raises(ConnectionError("away"))])
    async with talking() as talk:
        talk.sidecar.runner.use("shop", breaks(RuntimeError("boom")))
        fallback = ModelFallbackMiddleware(spare)
        assistant = Orchestrator(talk.client, model, summary_model=talk.summary_model, middleware=[fallback])
        streamed, items = await streamed_by(assistant)

    assert "".join(streamed) == "Not now."
    assert not [one for one in items if isinstance(one, MissingNote)]


async def test_a_model_that_imitates_its_earlier_statements_shows_none() -> None:
    """A provider that keeps what was said shows the model its own statement; nothing is missing in the turn after."""
    async with talking(calling("ask_shop"), states("Not now.", 1), says("Bye!\n<<stated 5f0c2a17: 1>>")) as talk:
        talk.sidecar.runner.use("shop", breaks(RuntimeError("boom")))
        await talk.say()
        answer = await talk.say("Thanks.")

    assert (answer.full_text, answer.stated) == ("Bye!", ())


async def streamed_by(assistant: Orchestrator) -> tuple[list[str], list[Any]]:
    """Return the text tokens of one turn, and the items of the custom stream."""
    streamed: list[str] = []
    items: list[Any] = []
    async with assistant.turn(TURN) as active:
        given_ = {"messages": [HumanMessage("?")]}
        async for mode, item in assistant.graph.astream(given_, context=active, stream_mode=["custom", "messages"]):
            if mode == "custom":
                items.append(item)
            elif isinstance(item[0], AIMessageChunk) and str(item[0].text):
                streamed.append(str(item[0].text))
    assert "".join(streamed) == active.answer
    return streamed, items
