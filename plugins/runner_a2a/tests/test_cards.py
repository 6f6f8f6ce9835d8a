"""An agent card is checked before a word about a user is sent."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from a2a.types.a2a_pb2 import AgentCard, AgentExtension, HTTPAuthSecurityScheme, SecurityScheme, StringList

from plugins.runner_a2a.tests.agents import NOBODY, Agent, Asked, runner_of
from plugins.runner_a2a.tests.running import failed, ran
from sidecar_runner_a2a.agent_card import EXTENSION


async def done(asked: Asked) -> None:
    """Answer."""
    await asked.say("Done.")
    await asked.updates.complete()


def elsewhere(card: AgentCard) -> None:
    """Name an interface on another host."""
    card.supported_interfaces[0].url = "http://127.0.0.1:1/a2a"


def older(card: AgentCard) -> None:
    """Speak the version before."""
    card.supported_interfaces[0].protocol_version = "0.3"


def grpc_only(card: AgentCard) -> None:
    """Speak gRPC."""
    card.supported_interfaces[0].protocol_binding = "GRPC"


def demanding(card: AgentCard) -> None:
    """Require an extension."""
    card.capabilities.extensions.append(AgentExtension(uri="https://example.com/payments", required=True))


def guarded(card: AgentCard) -> None:
    """Ask for a bearer token."""
    scheme = SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Bearer"))
    card.security_schemes["token"].CopyFrom(scheme)
    card.security_requirements.add().schemes["token"].CopyFrom(StringList())


@pytest.mark.parametrize(
    ("carding", "told"),
    [
        (elsewhere, "sends users' data to another origin"),
        (older, "speaks JSONRPC 0.3; this runner speaks JSONRPC and HTTP+JSON, 1.x"),
        (grpc_only, "speaks GRPC 1.0; this runner speaks"),
        (demanding, "requires the extension https://example.com/payments"),
        (guarded, "asks for credentials: give a bearer token in token_file"),
    ],
)
async def test_a_card_that_does_not_pass_fails_the_attempt(carding: Callable[[AgentCard], None], told: str) -> None:
    """The agent is not asked, and the detail says what to do."""
    agent = Agent(done)
    async with agent.running(carding=carding) as url:
        failure = await failed(runner_of(url))

    assert told in failure.detail
    assert not failure.transient
    assert agent.asked == []


async def test_an_extension_that_is_known_may_be_required() -> None:
    """An agent written for the sidecar may insist on it."""

    def carding(card: AgentCard) -> None:
        card.capabilities.extensions.append(AgentExtension(uri=EXTENSION, required=True))

    async with Agent(done).running(carding=carding) as url:
        await ran(runner_of(url))


async def test_a_token_satisfies_an_agent_that_asks_for_one(tmp_path: Path) -> None:
    """It is read from its file for each attempt."""
    agent, file = Agent(done), tmp_path / "token"
    async with agent.running(carding=guarded) as url:
        runner = runner_of(url, token_file=str(file))
        missing = await failed(runner, last=False)
        for token in ("first", "second"):
            file.write_text(f"{token}\n")
            await ran(runner, last=token == "second")

    assert "token cannot be read (FileNotFoundError)" in missing.detail
    assert [asked.headers["authorization"] for asked in agent.asked] == ["Bearer first", "Bearer second"]


async def test_a_pinned_card_that_has_changed_is_refused_with_both_digests() -> None:
    """The target may hold the digest of the card that was reviewed."""
    agent, expected = Agent(done), f"sha256:{'0' * 64}"
    async with agent.running() as url:
        failure = await failed(runner_of(f"{url}#{expected}"))
        found = failure.detail.rpartition("#")[2]
        await ran(runner_of(f"{url}#{found}"))

    assert f"expected {expected}, found {found}; review it, then pin" in failure.detail
    assert len(agent.asked) == 1


async def test_a_card_is_fetched_again_when_it_is_old() -> None:
    """And used as it is meanwhile."""
    changed: list[AgentCard] = []
    async with Agent(done).running(carding=changed.append) as url:
        keeping, forgetting = runner_of(url), runner_of(url, card_seconds=0)
        for runner in (keeping, forgetting):
            await ran(runner, last=False)
        grpc_only(changed[0])
        await ran(keeping)
        assert "GRPC" in (await failed(forgetting)).detail


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "HTTP 404; correct the target"),
        (b"HTTP/1.1 302 Found\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n", "HTTP 302"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n[1, ", "is no agent card"),
        (b'HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n{"skills": 1}'[:-1] + b"}", "is no agent card"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n" + b"x" * 100_000, "the agent sent too much"),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 1\r\n\r\nx", "the agent sent too much"),
    ],
    ids=["missing", "redirect", "cut", "wrong type", "too large", "compressed"],
)
async def test_what_is_no_card_is_told(answer: bytes, told: str) -> None:
    """Nothing is followed, and nothing of any size is read."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    listener = await asyncio.start_server(served, "127.0.0.1", 0)
    failure = await failed(
        runner_of(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", max_answer_bytes=65536)
    )
    listener.close()

    assert told in failure.detail


async def test_an_agent_that_is_away_is_told_with_the_errno() -> None:
    """And where its address is configured."""
    failure = await failed(runner_of(NOBODY))

    assert failure.fault is not None
    assert (failure.unreachable, failure.fault.errno) == (True, "ECONNREFUSED")
    assert "[targets]" in failure.fault.remedy


async def test_without_a_target_each_attempt_says_so() -> None:
    """The plugin can be enabled before an agent is named."""
    assert "there is no agent to ask" in (await failed(runner_of(None))).detail


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("unix:/run/shop.sock", "needs a target, e.g. https://"),
        ("http://agents.example.com", "must be https:// beyond this machine"),
        ("https://user:secret@agents.example.com", "must hold no user name"),
        ("https://agents.example.com#v2", "must be the digest of the agent card"),
    ],
)
def test_a_target_that_names_no_agent_is_refused(target: str, told: str) -> None:
    """When the runner is made, that is, when the definition is loaded."""
    with pytest.raises(ValueError, match=told):
        runner_of(target)


def test_a_grant_is_given_to_agents_on_this_machine_only() -> None:
    """It reads data in the user's name."""
    with pytest.raises(ValueError, match="agents on this machine only"):
        runner_of("https://agents.example.com", share_grant=True)


def test_a_key_needs_its_name() -> None:
    """An agent that holds several has to know which."""
    with pytest.raises(ValueError, match="belong together"):
        runner_of(NOBODY, signing_key_file="key")
