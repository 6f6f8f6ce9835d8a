"""Size of prompts, stability of their beginnings, and cached tokens as providers report them."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage

from clients.langchain.tests.support.scripted_model import calling, composes, says
from clients.langchain.tests.support.talking import talking
from subagents_langchain import ModelCall, OrchestratorRules
from tests.support.requirement import requirement


def cached(message: AIMessage, tokens: int) -> AIMessage:
    """Let a response have read so many of its input tokens from the provider's cache."""
    assert message.usage_metadata is not None
    message.usage_metadata["input_token_details"] = {"cache_read": tokens}
    return message


@requirement("PC1-D-20")
async def test_the_beginning_of_the_prompt_repeats_from_call_to_call_and_from_turn_to_turn() -> None:
    """Two users and three calls: the first is new, all others repeat it, whatever else is in the prompt."""
    told: list[ModelCall] = []
    script = [calling("ask_shop"), composes, cached(says("Welcome."), 800)]
    async with talking(*script, rules=OrchestratorRules(on_model_call=told.append)) as talk:
        await talk.say("Offers?")
        await talk.say("Thanks!", principal="user-2", episode_id="episode-2")

        surface = (await talk.sidecar.bind()).surface
    assert [each.prefix_repeated for each in told] == [False, True, True]
    assert len({each.prefix_digest for each in told}) == len({each.prefix_bytes for each in told}) == 1
    assert told[1].prompt_bytes > told[0].prompt_bytes > told[0].prefix_bytes > len(surface.prompt.prefix)
    assert [each.cached_tokens for each in told] == [None, None, 800]
    assert [(each.model, each.input_tokens, each.output_tokens) for each in told] == [("big", 1000, 100)] * 3


async def test_a_change_of_the_tools_is_a_new_beginning() -> None:
    """One dispatch is allowed: the composing call is offered no sub-agents, and its beginning is shorter."""
    told: list[ModelCall] = []
    rules = OrchestratorRules(on_model_call=told.append)
    async with talking(calling("ask_shop"), composes, rules=rules, max_dispatches=1) as talk:
        await talk.say()

    routing, composing = told
    assert not composing.prefix_repeated
    assert composing.prefix_digest != routing.prefix_digest
    assert composing.prefix_bytes < routing.prefix_bytes


@pytest.mark.parametrize("usage", [None, {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}])
async def test_what_a_provider_does_not_report_is_unknown_and_not_zero(usage: Any) -> None:
    """Without a report, or with one that says nothing of a cache."""
    told: list[ModelCall] = []
    answer = AIMessage("Hello.", usage_metadata=usage)
    async with talking(answer, rules=OrchestratorRules(on_model_call=told.append)) as talk:
        await talk.say()

    (call,) = told
    assert (call.input_tokens, call.output_tokens) == ((7, 3) if usage else (None, None))
    assert call.cached_tokens is None
