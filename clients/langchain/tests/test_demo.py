"""`make demo-langchain`: the same conversation through `create_agent`, the model offline or real."""

import re
from typing import Final

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from examples.consumer_agent.langchain_model import OfflineSummaryModel
from tests.support.running_demo import running_demo

LANGCHAIN: Final = {"DEMO_ORCHESTRATOR": "langchain"}
NOBODY_LISTENS: Final = "http://127.0.0.1:9/v1"
KEY: Final = "key-that-must-not-show"


@pytest.mark.system
def test_the_scripted_conversation_goes_the_same_way_through_create_agent() -> None:
    """Without a key the offline model plays, and is named as what it is; every check of the demo holds.

    Before two steps of the rollout `sidecar eval` measures, and the gates decide by that.
    """
    no_key = {"MODEL": "openai:gpt-5.4-mini", "OPENAI_API_KEY": "", "OPENAI_ADMIN_KEY": ""}
    with running_demo({**LANGCHAIN, **no_key}, "--full") as demo:
        code = demo.read_to_the_end()
        assert demo.started() == {}
    assert "the reference orchestrator on LangChain's create_agent" in demo.text
    assert "MODEL=openai:gpt-5.4-mini could not be set up (OpenAIError: Missing credentials)" in demo.text
    assert "Model: offline rule-based model, not an LLM" in demo.text
    assert "8 of 8 turns followed the script" in demo.text
    assert code == 0
    evaluated = [line.strip(" │") for line in demo.lines if "│ shop: cases" in line or "│ 65 trials" in line]
    assert [re.sub(r" in .*", "", one) for one in evaluated] == [
        "shop: cases 65, routing 100.0, 95 % 94-100, switch 100.0",
        "65 trials",
        "shop: cases 65, routing 32.3, 95 % 22-44, switch 50.0",
        "65 trials",
    ]
    assert re.findall(r"│ recorded for (\w+) in \S+: ([\w-]+)", demo.text) == [
        ("pre_merge", "shop-dates"),
        ("pre_ramp", "shop-dates"),
    ]


@pytest.mark.system
def test_with_a_key_the_real_model_is_asked_and_its_failure_ends_one_turn_only() -> None:
    """Its provider cannot be reached: the turn says so, without the provider's text, and the chat goes on."""
    real = {"MODEL": "openai:gpt-5.4-mini", "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": NOBODY_LISTENS, "CHAT": "1"}
    with running_demo({**LANGCHAIN, **real}, typed="Any offers on coffee?\n/timeline\n/quit\n") as demo:
        code = demo.read_to_the_end()
        assert demo.started() == {}
    assert "openai:gpt-5.4-mini, a real one" in demo.text
    assert re.search(r"the model failed: \w*ConnectionError\n", demo.text)
    assert "There was no turn yet." in demo.text
    assert KEY not in demo.text
    assert code == 0


async def test_the_offline_summary_tells_facts_and_no_apologies() -> None:
    """Of an answer that was half an apology, the other half; of one that was nothing else, nothing."""
    summary = await OfflineSummaryModel().ainvoke(
        [
            SystemMessage("prompt"),
            HumanMessage("Offers and points?"),
            AIMessage("Coffee is cheap. About “points”: sorry, I could not find that out just now."),
            HumanMessage("Points?"),
            AIMessage("Points cannot be looked up. I would rather leave it out than tell you something wrong."),
            HumanMessage("Write the prior_context."),
        ]
    )
    assert summary.text == 'The user asked "Offers and points?" and learned: Coffee is cheap.'
