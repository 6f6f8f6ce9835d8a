"""For whom an agent works, and which conversation it is in."""

import hmac
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from plugins.runner_a2a.tests.agents import Agent, Asked, runner_of
from plugins.runner_a2a.tests.running import failed, ran
from sidecar.core.identifiers import EpisodeId, Principal
from sidecar_conformance.run_requests import CONTEXT, GRANT, PRINCIPAL, request_for
from sidecar_conformance.runner_bench import AgentScript
from sidecar_runner_a2a.identity import IDENTITY, SIGNATURE
from sidecar_runner_a2a.question import context_id_of
from sidecar_runner_a2a.settings import ContextScope

KEY = "k" * 32


async def done(asked: Asked) -> None:
    """Answer."""
    await asked.say("Done.")
    await asked.updates.complete()


async def asked_with(**settings: Any) -> Asked:
    """Ask an agent and return what it saw."""
    agent = Agent(done)
    async with agent.running() as url:
        trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "baggage": "user=ada"}
        await ran(runner_of(url, "unix:/run/gateway.sock", **settings), trace_headers=trace)
    return agent.asked[0]


async def test_the_user_and_the_run_are_forwarded() -> None:
    """In a header of their own, byte for byte; without a key there is no signature."""
    asked = await asked_with()

    expires_at = asked.identity["expires_at"]
    assert isinstance(expires_at, int)
    assert asked.identity == {
        "principal": PRINCIPAL,
        "episode_id": "episode-1",
        "turn_id": "turn-1",
        "sub_agent_id": "scripted",
        "child_id": "child-1",
        "attempt_id": "child-1-attempt-1",
        "expires_at": expires_at,
    }
    assert asked.message_id == "child-1-attempt-1"
    assert SIGNATURE not in asked.headers


async def test_the_identity_is_signed_with_the_key(tmp_path: Path) -> None:
    """An agent that holds the key can tell who sent it."""
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    asked = await asked_with(signing_key_file=str(file), signing_key_id="k1")

    version, key_id, digits = asked.headers[SIGNATURE].split(":")
    assert (version, key_id) == ("v1", "k1")
    assert digits == hmac.digest(KEY.encode(), asked.headers[IDENTITY].encode(), sha256).hex()


@pytest.mark.parametrize(("content", "told"), [("short", "at least 16 characters"), ("two words", "holds no secret")])
async def test_an_unusable_key_fails_the_attempt_and_is_not_told(tmp_path: Path, content: str, told: str) -> None:
    """Without the signature that was demanded, nothing is sent."""
    file = tmp_path / "key"
    file.write_text(content)
    agent = Agent(done)
    async with agent.running() as url:
        failure = await failed(runner_of(url, signing_key_file=str(file), signing_key_id="k1"))

    assert told in failure.detail
    assert content not in failure.detail
    assert agent.asked == []


async def test_the_trace_goes_along_and_baggage_does_not() -> None:
    """Baggage may hold what the agent has no business to know."""
    asked = await asked_with()

    assert asked.headers["traceparent"].startswith("00-0af7")
    assert "baggage" not in asked.headers


@pytest.mark.parametrize("share_grant", [False, True])
async def test_the_grant_is_shared_only_if_that_is_configured(share_grant: bool) -> None:
    """With it, an agent on this machine reads data through the tool gateway as any sub-agent does."""
    asked = await asked_with(share_grant=share_grant)

    given = {name: asked.details.get(name) for name in ("grant", "gateway_target")}
    shared = {"grant": GRANT, "gateway_target": "unix:/run/gateway.sock"}
    assert given == (shared if share_grant else {"grant": None, "gateway_target": None})
    assert GRANT not in str(asked.headers)


CALL = request_for(AgentScript.ANSWER)
SAME_CALL = request_for(AgentScript.ANSWER, attempt=2, attempt_id="child-1-attempt-2")
NEXT_CALL = request_for(AgentScript.ANSWER, "child-2")
OTHERS = [
    request_for(AgentScript.ANSWER, context=replace(CONTEXT, episode_id=EpisodeId("episode-2"))),
    request_for(AgentScript.ANSWER, context=replace(CONTEXT, principal=Principal("bob"))),
]


@pytest.mark.parametrize("scope", ContextScope)
def test_a_context_is_one_calls_or_one_conversations(scope: ContextScope) -> None:
    """All attempts of a call share it; another conversation or user never does; another call only if configured."""
    own = context_id_of(CALL, scope)

    assert context_id_of(SAME_CALL, scope) == own
    assert all(context_id_of(other, scope) != own for other in OTHERS)
    assert (context_id_of(NEXT_CALL, scope) == own) is (scope is ContextScope.CONVERSATION)
    assert PRINCIPAL not in own


async def test_the_agent_is_asked_in_that_context() -> None:
    """It is the conversation's, where an agent remembers what was said."""
    agent = Agent(done)
    async with agent.running() as url:
        runner = runner_of(url, context="conversation")
        for child in ("child-1", "child-2"):
            await ran(runner, child=child, last=child == "child-2")

    assert [asked.context_id for asked in agent.asked] == [context_id_of(CALL, ContextScope.CONVERSATION)] * 2
