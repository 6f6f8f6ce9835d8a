"""A real provider client that chains responses on the provider's side."""

from typing import Any

import httpx
from langchain_core.messages import AnyMessage, HumanMessage
from langchain_openai import ChatOpenAI

from clients.langchain.tests.support.responses_api import called, running_provider, said
from subagents_client import SidecarClient, TurnRequest
from subagents_langchain import ENGLISH, Orchestrator, rendered_text
from tests.support.fake_runner import raises
from tests.support.harness import SECRET, running_sidecar_for_tests
from tests.support.requirement import requirement


@requirement("PC1-D-27")
async def test_responses_chain_through_calls_answers_with_notes_and_turns() -> None:
    """Each request names the response before it and carries only what is new, though an answer has a note."""
    outputs = [called("ask_shop", "call_1"), said("Hm."), said("You are welcome.")]
    turn = TurnRequest(principal="user-1", episode_id="episode-1")
    history: list[AnyMessage] = []
    async with (
        running_provider(outputs) as provider,
        running_sidecar_for_tests() as sidecar,
        SidecarClient.connect(sidecar.dispatch_target, boot_secret=SECRET) as client,
        httpx.AsyncClient(trust_env=False) as http,
    ):
        sidecar.runner.use("shop", raises(RuntimeError("away")))
        model = ChatOpenAI(
            model="small", base_url=provider.base_url, api_key="x", max_retries=0,
            use_previous_response_id=True, http_async_client=http,
        )  # fmt: skip
        orchestrator = Orchestrator(client, model)
        for text in ("Offers?", "Thanks!"):
            answer = await orchestrator.answer(turn, [*history, HumanMessage(text)])
            history = list(answer.messages)

    assert [one.get("previous_response_id") for one in provider.requests] == [None, "resp_1", "resp_2"]
    assert [kinds(one) for one in provider.requests] == [["user"], ["function_call_output"], ["user"]]
    assert rendered_text(history[3]) == f"Hm.\n\n{ENGLISH.nothing}"


def kinds(request: dict[str, Any]) -> list[str]:
    """Return what the input of a request is made of, without the system prompt."""
    found = [str(one.get("role") or one.get("type")) for one in request["input"]]
    return [one for one in found if one not in {"system", "developer"}]
