"""What the documentation shows works."""

import re
from pathlib import Path
from types import ModuleType

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from clients.langchain.tests.support.agents import asks_first
from clients.langchain.tests.support.scripted_model import calling, composes
from clients.langchain.tests.support.talking import talking
from subagents_client import TurnRequest
from tests.support.fake_runner import answers

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/langchain.md"
README = ROOT / "clients/langchain/README.md"


def blocks(path: Path) -> list[str]:
    """Return the Python in a page."""
    return re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def module(code: str) -> ModuleType:
    """Return the module that a block is."""
    made = ModuleType("from_the_documentation")
    exec(code, made.__dict__)
    return made


@pytest.mark.parametrize("code", [*blocks(PAGE), *blocks(README)])
def test_every_example_imports_what_there_is(code: str) -> None:
    """Names that moved are found here, not by a reader."""
    module(code)


async def test_a_turn_is_carried_out_and_shown_as_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    """Preamble and progress on the screen, the answer at the end."""
    page = module(blocks(PAGE)[0])
    async with talking(calling("ask_shop"), composes) as talk:
        talk.sidecar.runner.use("shop", answers("Coffee.", statuses=["searching_offers"]))
        answer = await page.turn(talk.orchestrator, "user-1", "episode-1", [], "Offers?")

    assert answer.text == "Here is what I found: Coffee."
    assert capsys.readouterr().out.splitlines() == ["One moment, I am looking that up.", "Looking for offers…"]


async def test_the_graph_streams_in_other_ways_and_the_turn_is_ended(capsys: pytest.CaptureFixture[str]) -> None:
    """As the page shows it."""
    page = module(blocks(PAGE)[3])
    turn = TurnRequest(principal="user-1", episode_id="episode-1")
    async with talking(calling("ask_shop"), composes) as talk:
        said = await page.tokens(talk.orchestrator, turn, str(HumanMessage("?").text))

        assert len(talk.sidecar.recorder.of("turn_routed")) == 1
    assert said == "Here is what I found: hello from shop"
    assert "custom Preamble" in capsys.readouterr().out


async def test_a_turn_that_waits_for_approval_goes_on_as_the_page_says() -> None:
    """Everything is approved."""
    page = module(blocks(PAGE)[1])
    turn = TurnRequest(principal="user-1", episode_id="episode-1")
    more = {"checkpointer": InMemorySaver(), "middleware": [asks_first("ask_shop")]}
    async with talking(calling("ask_shop"), composes, more=more) as talk:
        answer = await page.approved(talk.orchestrator, turn, "thread-1", "Offers?")

    assert answer.text == "Here is what I found: hello from shop"
