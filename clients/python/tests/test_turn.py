from datetime import timedelta
from pathlib import Path

import pytest

from clients.python.tests.support.fake_sidecar_host import CALLS, scene
from subagents.dispatch.v1 import dispatch_pb2
from subagents_client import DispatchContext, Integration, OnDisconnect, SidecarClient, StartState, TurnRequest, Verdict
from subagents_client.channels import is_local, unix_path
from subagents_errors import StoreUnavailable


async def test_the_surface_shows_the_tools_in_order() -> None:
    """What the orchestrator's model may call."""
    async with scene() as here:
        turn = await here.turn()

    assert [one.name for one in turn.surface.sub_agent_tools] == ["ask_shop", "ask_rewards", "ask_support"]
    assert turn.surface.tool("ask_shop") is turn.surface.sub_agent_tools[0]
    assert turn.surface.tool("ask_moon") is None
    assert turn.binding.state is StartState.STARTED


async def test_a_dispatch_carries_token_digest_context_and_the_disconnect_policy() -> None:
    """Everything the caller says arrives as the contract names it."""
    context = DispatchContext(
        prior_context="before",
        task_prompt="now",
        declared_intent_count=2,
        on_disconnect=OnDisconnect.CONTINUE_UNTIL,
        continue_for=timedelta(seconds=30),
    )
    async with scene() as here:
        turn = await here.turn()
        await turn.dispatch_and_wait(CALLS, context, dispatch_id="dispatch-1")
        sent = here.sidecar.received[-1][1]

    assert isinstance(sent, dispatch_pb2.DispatchRequest)
    assert (sent.surface_token, sent.binding_digest, sent.dispatch_id) == ("token", "sha256:1", "dispatch-1")
    assert (sent.prior_context, sent.task_prompt, sent.declared_intent_count) == ("before", "now", 2)
    assert sent.on_disconnect == dispatch_pb2.ON_DISCONNECT_CONTINUE_UNTIL
    assert sent.continue_for.seconds == 30


async def test_each_dispatch_has_an_id_of_its_own() -> None:
    """Two responses of the model, two dispatches."""
    async with scene() as here:
        turn = await here.turn()
        first = await turn.dispatch_and_wait(CALLS)
        second = await turn.dispatch_and_wait(CALLS)

    assert first.dispatch_id != second.dispatch_id


async def test_a_turn_is_ended_with_verdicts_and_narration_even_if_the_store_stumbles() -> None:
    """The first attempt finds no store; ending is safe to repeat, so it is repeated."""
    async with scene() as here:
        here.sidecar.refusals["EndTurn"].append(StoreUnavailable("later"))
        turn = await here.turn()
        end = await turn.end("Here you are.", [Integration("child-1", Verdict.REJECTED, "did not fit")])
        sent = here.sidecar.received[-1][1]

    assert end.gate_passed
    assert here.sidecar.methods() == ["BindTurn", "EndTurn", "EndTurn"]
    assert isinstance(sent, dispatch_pb2.EndTurnRequest)
    assert sent.narration == "Here you are."
    assert sent.integrations[0].verdict == dispatch_pb2.VERDICT_REJECTED


async def test_a_call_can_be_cancelled_and_a_child_closed() -> None:
    """Both before the turn ends."""
    async with scene() as here:
        turn = await here.turn()
        cancelled = await turn.cancel_call("dispatch-1", "call-1")
        child = await turn.close_child(Integration("child-1"))

    assert cancelled
    assert child.child_id == "child-1"


async def test_a_dispatch_without_calls_is_refused_here() -> None:
    """There is nothing to wait for: the turn is to be ended."""
    async with scene() as here:
        turn = await here.turn()
        with pytest.raises(ValueError, match="at least one call"):
            turn.dispatch([])


async def test_the_boot_secret_is_read_from_a_file(tmp_path: Path) -> None:
    """With the line end that an editor leaves."""
    secret = tmp_path / "secret"
    secret.write_text("secret-2\n", encoding="utf-8")
    async with scene() as here:
        async with SidecarClient.connect(here.target, boot_secret_file=secret) as client:
            await client.bind_turn(TurnRequest(principal="user-1", episode_id="episode-1"))
        assert here.sidecar.secrets == ["secret-2"]
        with pytest.raises(ValueError, match="not both"):
            SidecarClient.connect(here.target, boot_secret="x", boot_secret_file=secret)


@pytest.mark.parametrize(
    ("target", "local"),
    [
        ("unix:/run/x.sock", True),
        ("unix-abstract:x", True),
        ("127.0.0.1:50051", True),
        ("localhost:1", True),
        ("[::1]:50051", True),
        ("ipv6:%5B::1%5D:50051", True),
        ("dns:///localhost:1", True),
        ("10.0.0.1:50051", False),
        ("0.0.0.0:50051", False),
        ("[::]:50051", False),
        ("dns:///shop.example:443", False),
        ("localhost.example:443", False),
        ("xds:///shop", False),
        ("ipv4:127.0.0.1:80,10.0.0.1:80", False),
    ],
)
def test_only_addresses_of_this_machine_are_local(target: str, *, local: bool) -> None:
    """Nothing is encrypted, so the secret must not leave the machine."""
    assert is_local(target) is local


def test_the_path_of_a_unix_socket_is_found_in_each_way_of_writing_it() -> None:
    """As gRPC reads them."""
    assert unix_path("unix:/run/x.sock") == "/run/x.sock"
    assert unix_path("unix:///run/x.sock") == "/run/x.sock"
    assert unix_path("unix:x.sock") == "x.sock"
    assert unix_path("127.0.0.1:1") is None


async def test_a_client_does_not_connect_beyond_this_machine() -> None:
    """The boot secret would travel in the clear."""
    with pytest.raises(ValueError, match="not be encrypted"):
        SidecarClient.connect("sidecar.example:443", boot_secret="x")
