"""One agent serves every user at once: nothing of one reaches another, a log, or the agent that is kept."""

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from plugins.runner_langchain.tests.support import requests
from plugins.runner_langchain.tests.support.scripted_model import (
    Messages,
    calls,
    repeats_results,
    says,
    scripted,
    waits_for,
)
from sidecar.policy.protocols import ComponentMade, RunnerError, StatusReported, UsageReported
from sidecar_runner_langchain import AgentLimits, AgentRuntime
from subagents_client.runner import OwnTurn
from tests.support.requirement import requirement

USERS = [f"user-{number}" for number in range(20)]
RENDER = requests.a_local_tool("render_offers", **{"x-status": "searching_offers"})
ONCE = datetime(2031, 4, 1, tzinfo=UTC)
OFFERS = ("render_offers", {"offers": []})


@requirement("PC1-D-20", "PC1-D-22")
async def test_the_prompt_begins_with_the_same_bytes_for_every_user() -> None:
    """The suffix differs, and stands at the end."""
    model = scripted(says("ok"))
    async with requests.running(AgentRuntime(models=lambda card: model)) as runner:
        for user in ("anna", "bert"):
            await requests.events_of(runner, requests.a_request(user=user))
    prompts = [messages[0].content for messages in model.shown]
    assert prompts == [f"You are a script.\nuser_id: {user}\n" for user in ("anna", "bert")]


@requirement("PC1-D-3", "PC1-D-23")
async def test_one_agent_is_made_for_many_users_at_once_and_mixes_none() -> None:
    """Twenty users begin together: one model is made, each gets the answer to its own prompt and its own component."""
    made: list[str] = []
    together = asyncio.Barrier(len(USERS))

    async def user_of(messages: Messages) -> AIMessage:
        await together.wait()
        return calls(("render_offers", {"offers": [str(messages[0].content).split()[-1]]}))

    def maker(card: Any) -> Any:
        made.append(card.model)
        return scripted(user_of, lambda messages: says(str(messages[0].content).split()[-1]))

    async with requests.running(AgentRuntime(models=maker)) as runner:
        card = requests.a_card([RENDER])
        every = [requests.a_request(card, user=user, child=user) for user in USERS]
        runs = await asyncio.gather(*(requests.events_of(runner, request) for request in every))
    assert [requests.said(events) for events in runs] == USERS
    components = [event for events in runs for event in events if isinstance(event, ComponentMade)]
    assert [each.component_data_json for each in components] == [f'{{"offers":["{user}"]}}' for user in USERS]
    assert made == ["none"]


async def test_a_card_that_changes_gets_an_agent_of_its_own() -> None:
    """The prompt counts too: two cohorts share a definition, not a prompt."""
    made: list[str] = []
    runtime = AgentRuntime(models=lambda card: (made.append(card.prompt_prefix), scripted(says("ok")))[1])
    async with requests.running(runtime) as runner:
        for prefix in ("One.", "Two.", "One."):
            await requests.events_of(runner, requests.a_request(prompt_prefix=prefix))
    assert made == ["One.", "Two."]


async def test_an_agent_that_could_not_be_made_is_tried_again() -> None:
    """The provider's key comes late."""
    models = iter([ValueError("no key"), scripted(says("now"))])

    def maker(card: Any) -> Any:
        made = next(models)
        if isinstance(made, Exception):
            raise made
        return made

    async with requests.running(AgentRuntime(models=maker)) as runner:
        with pytest.raises(RunnerError):
            await requests.events_of(runner, requests.a_request())
        assert requests.said(await requests.events_of(runner, requests.a_request())) == "now"


async def test_what_fails_is_logged_without_the_users_words(caplog: pytest.LogCaptureFixture) -> None:
    """An error that quotes the prompt: neither its text nor the user is in what the runner says or logs."""
    caplog.set_level(logging.DEBUG)

    def quotes(messages: Messages) -> AIMessage:
        raise ValueError(f"bad request: {messages}")

    async with requests.running(AgentRuntime(models=lambda card: scripted(quotes))) as runner:
        with pytest.raises(RunnerError) as failure:
            await requests.events_of(runner, requests.a_request(user="canary-user"))
    assert "ValueError at test_isolation.py:" in failure.value.detail
    assert "canary-user" not in f"{failure.value!r} {caplog.text}"
    assert not failure.value.transient


async def test_a_provider_that_is_away_fails_for_now_only() -> None:
    """The contract may allow another attempt."""

    def away(messages: Messages) -> AIMessage:
        raise RuntimeError("while asking") from ConnectionError("refused")

    async with requests.running(AgentRuntime(models=lambda card: scripted(away))) as runner:
        with pytest.raises(RunnerError) as failure:
            await requests.events_of(runner, requests.a_request())
    assert failure.value.transient


async def test_cancelling_a_run_stops_its_model_call() -> None:
    """The call itself is cancelled, not only its result thrown away; others go on."""
    reached, never, stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()
    wait = waits_for(never, reached)

    async def step(messages: Messages) -> AIMessage:
        try:
            return await wait(messages)
        finally:
            stopped.set()

    async with requests.running(AgentRuntime(models=lambda card: scripted(step))) as runner:
        run = asyncio.ensure_future(requests.events_of(runner, requests.a_request()))
        async with asyncio.timeout(5):
            await reached.wait()
            run.cancel()
            await stopped.wait()


async def test_closing_the_runner_ends_what_runs() -> None:
    """The sidecar shuts down: the attempt ends as one that may be tried elsewhere."""
    reached = asyncio.Event()
    model = scripted(waits_for(asyncio.Event(), reached))
    async with requests.running(AgentRuntime(models=lambda card: model)) as runner:
        run = asyncio.ensure_future(requests.events_of(runner, requests.a_request()))
        async with asyncio.timeout(5):
            await reached.wait()
            await runner.close()
            with pytest.raises(RunnerError) as failure:
                await run
    assert failure.value.transient


async def test_status_and_usage_are_reported_as_they_happen() -> None:
    """A tool's declaration names its status; tokens are running totals over the calls of the model."""
    model = scripted(calls(OFFERS, tokens=(100, 5)), says("done", (120, 7)))
    async with requests.running(AgentRuntime(models=lambda card: model)) as runner:
        events = await requests.events_of(runner, requests.a_request(requests.a_card([RENDER])))
    assert [event for event in events if isinstance(event, StatusReported)] == [StatusReported("searching_offers")]
    assert [event for event in events if isinstance(event, UsageReported)][-1] == UsageReported(220, 12)


async def test_an_agent_that_never_ends_is_stopped() -> None:
    """It calls tools for ever: after its steps the attempt has failed."""
    model = scripted(*[calls(OFFERS)] * 10)
    limits = AgentLimits(most_steps=6)
    async with requests.running(AgentRuntime(models=lambda card: model, limits=limits)) as runner:
        with pytest.raises(RunnerError, match="GraphRecursionError"):
            await requests.events_of(runner, requests.a_request(requests.a_card([RENDER])))
    assert len(model.shown) == 3


async def test_a_local_tool_without_a_function_is_a_fault_of_the_set_up() -> None:
    """The operator is told which; with a function, it runs."""
    card, model = (
        requests.a_card([requests.a_local_tool("llm_feedback")]),
        scripted(calls(("llm_feedback", {"config": 1, "self": 2})), repeats_results),
    )
    async with requests.running(AgentRuntime(models=lambda card: model)) as runner:
        with pytest.raises(RunnerError, match="llm_feedback is a local tool"):
            await requests.events_of(runner, requests.a_request(card))

    async def note(arguments: Any, run: Any) -> Any:
        return f"{run.child_id} noted {sorted(arguments)}"

    runtime = AgentRuntime(models=lambda card: model, local_tools={"llm_feedback": note})
    async with requests.running(runtime) as runner:
        told = requests.said(await requests.events_of(runner, requests.a_request(card)))
    assert told == "\"child-1 noted ('config', 'self')\""


async def test_own_earlier_turns_stand_before_what_is_asked_now() -> None:
    """As the reader gives them, oldest first; the reader knows whose."""
    asked_for: list[str] = []
    model = scripted(says("ok"))

    async def reader(run: Any) -> list[OwnTurn]:
        asked_for.append(run.context.episode_id)
        return [OwnTurn("turn-1", ONCE, "beans?", "Harbour Roasters."), OwnTurn("turn-2", ONCE, "cheaper?", "No.")]

    async with requests.running(AgentRuntime(models=lambda card: model, history=reader)) as runner:
        await requests.events_of(runner, requests.a_request())
    shown = [(type(message), message.content) for message in model.shown[0][1:]]
    expected = [HumanMessage("beans?"), AIMessage("Harbour Roasters."), HumanMessage("cheaper?"), AIMessage("No.")]
    assert shown == [(type(each), each.content) for each in [*expected, HumanMessage("something")]]
    assert asked_for == ["episode-1"]
