"""Models as the registry names them: the provider's real client against an OpenAI-compatible endpoint over HTTP."""

import asyncio
import json
import logging
from typing import Any

import pytest
from msgspec.structs import replace

from plugins.runner_langchain.tests.support import requests
from plugins.runner_langchain.tests.support.openai_stub import message, running_openai_stub
from sidecar.core.definitions.cards.card import Card, Tuning
from sidecar.core.identifiers import ModelId
from sidecar.policy.protocols import ComponentMade, RunnerError, UsageReported
from sidecar_runner_langchain import AgentRuntime, CardNotRunnable, model_of
from sidecar_runner_langchain.in_process import card_of
from sidecar_runner_langchain.models import key_variable
from tests.support.requirement import requirement

TOOL = requests.a_local_tool("render_offers", properties={"offers": {"type": "array"}})
TUNING = Tuning(max_output_tokens=300, reasoning_effort="low", text_verbosity="medium")


def a_card(base_url: str | None, provider_model: str = "tiny:7b", **changes: Any) -> Card:
    """Return a card whose model is at an endpoint."""
    card = requests.a_card([TOOL])
    model = replace(card.model, id=ModelId("tiny-7b.q4"), provider_model=provider_model, base_url=base_url)
    return replace(card, model=model, definition=replace(card.definition, **changes))


@requirement("PC1-FR-2a", "PC1-D-7")
async def test_a_model_with_a_base_url_is_asked_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rounds over HTTP: prompt, tuning, tools and tool results as the provider's own client sends them."""
    monkeypatch.setenv("OPENAI_API_KEY", "the-providers-own")
    monkeypatch.setenv(key_variable("tiny-7b.q4"), "of-this-endpoint")
    replies = (message(None, ("render_offers", '{"offers": [1]}'), tokens=(50, 9)), message("Shown.", tokens=(70, 4)))
    async with running_openai_stub(*replies) as (stub, url), requests.running(AgentRuntime()) as runner:
        events = await requests.events_of(runner, requests.a_request(a_card(url, tuning=TUNING)))
    first, second = stub.bodies
    assert first["model"] == "tiny:7b"
    assert first["messages"][0] == {"role": "system", "content": "You are a script.\nuser_id: user-7\n"}
    assert first["messages"][1] == {"role": "user", "content": "something"}
    assert (first["max_completion_tokens"], first["reasoning_effort"], first["verbosity"]) == (300, "low", "medium")
    assert [tool["function"]["name"] for tool in first["tools"]] == ["render_offers"]
    assert second["messages"][-1] == {"role": "tool", "tool_call_id": "call_0", "content": "shown"}
    assert requests.said(events) == "Shown."
    assert [json.loads(event.component_data_json) for event in events if isinstance(event, ComponentMade)] == [
        {"offers": [1]}
    ]
    assert [event for event in events if isinstance(event, UsageReported)][-1] == UsageReported(120, 13)
    assert stub.keys == ["Bearer of-this-endpoint"] * 2


@pytest.mark.parametrize(("status", "transient"), [(429, True), (500, True), (503, True), (400, False), (401, False)])
async def test_a_provider_that_refuses_is_asked_once(
    status: int, transient: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether another attempt may succeed is told; making one is the contract's to say. Its words go nowhere."""
    caplog.set_level(logging.INFO)
    async with running_openai_stub(status) as (stub, url), requests.running(AgentRuntime()) as runner:
        with pytest.raises(RunnerError) as failure:
            await requests.events_of(runner, requests.a_request(a_card(url), user="canary-user"))
    assert failure.value.transient is transient
    assert len(stub.bodies) == 1
    assert "canary-user" not in f"{failure.value!r} {caplog.text}"


async def test_an_endpoint_that_is_not_there_may_come_back() -> None:
    """Connection refused: transient."""
    async with running_openai_stub() as (_, url):
        pass
    async with requests.running(AgentRuntime()) as runner:
        with pytest.raises(RunnerError) as failure:
            await requests.events_of(runner, requests.a_request(a_card(url)))
    assert failure.value.transient


async def test_a_cancelled_run_hangs_up_on_its_provider() -> None:
    """Nobody pays for tokens that nobody will read."""
    async with running_openai_stub() as (stub, url), requests.running(AgentRuntime()) as runner:
        stub.hangs = asyncio.Event()
        run = asyncio.ensure_future(requests.events_of(runner, requests.a_request(a_card(url))))
        async with asyncio.timeout(10):
            await stub.hangs.wait()
            run.cancel()
            await stub.left.wait()


def test_without_a_key_of_its_own_an_endpoint_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider's own key is not sent to another endpoint."""
    monkeypatch.setenv("OPENAI_API_KEY", "the-providers-own")
    model: Any = model_of(card_of(requests.a_request(a_card("http://127.0.0.1:9/v1"))))
    assert model.openai_api_key.get_secret_value() == "none"


@pytest.mark.parametrize("name", ["nobody:knows", "mistralai:large", "what-is-this"])
def test_a_model_that_cannot_be_made_is_a_fault_of_the_set_up(name: str) -> None:
    """An unknown provider, one whose package is not installed, no provider at all."""
    with pytest.raises(CardNotRunnable, match="no model 'tiny-7b"):
        model_of(card_of(requests.a_request(a_card(None, name))))
