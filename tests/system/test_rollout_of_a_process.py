"""Rollouts in a whole process: what is served is on record, operators change it, and restarts know it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sidecar.adapters.checkpoints import Ed25519Signer
from sidecar.composition.running import running_sidecar
from sidecar.core.operators.role_tokens import RoleClaims, seal
from sidecar.core.operators.roles import Role
from sidecar.rpc.authorisation import BOOT_SECRET_KEY
from sidecar.rpc.operators import ROLE_TOKEN_KEY
from sidecar.settings import SettingsProblem, read_settings
from subagents.dispatch.v1 import dispatch_pb2_grpc
from subagents.lifecycle.v1 import lifecycle_pb2, lifecycle_pb2_grpc, reading_pb2
from tests.support.requests import a_bind, failure_of
from tests.support.sidecar_process import place, settings_file

pytestmark = pytest.mark.system

DEPLOYMENT = "tests"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of its own, with definitions."""
    with place() as path:
        yield path


@dataclass(slots=True)
class Operated:
    """A running sidecar with rollouts, and who may operate it."""

    folder: Path
    boot_secret: str
    signer: Ed25519Signer

    async def offers(self, turn_id: str) -> list[str]:
        """Bind a turn; returns the sub-agents that it may call."""
        async with grpc.aio.insecure_channel(f"unix:{self.folder}/dispatch/sidecar.sock") as channel:
            stub = dispatch_pb2_grpc.DispatchServiceStub(channel)
            bound = await stub.BindTurn(a_bind(turn_id=turn_id), metadata=((BOOT_SECRET_KEY, self.boot_secret),))
        return [tool.name for tool in bound.surface.sub_agent_tools]

    async def operate(self, method: str, request: Any) -> Any:
        """Call LifecycleService as an operator."""
        now = int(datetime.now(UTC).timestamp())
        claims = RoleClaims(
            aud=DEPLOYMENT,
            sub="ada@example",
            role=Role.OPERATOR,
            nbf=now,
            exp=now + 600,
            jti="t-1",
            kid=self.signer.key_id,
        )
        async with grpc.aio.insecure_channel(f"unix:{self.folder}/o/s.sock") as channel:
            stub = lifecycle_pb2_grpc.LifecycleServiceStub(channel)
            metadata = ((ROLE_TOKEN_KEY, seal(claims, self.signer.sign)),)
            return await getattr(stub, method)(request, timeout=10, metadata=metadata)


@asynccontextmanager
async def operated(folder: Path, private: Ed25519PrivateKey) -> AsyncIterator[Operated]:
    """Serve with rollouts while the context is open."""
    key = folder / "operator.pub"
    key.write_bytes(private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    more = f"""
[rollout]
enabled = true
kills_file = "{folder}/kills.jsonl"
[operators]
socket = "{folder}/o/s.sock"
deployment = "{DEPLOYMENT}"
keys = ["{key}"]
"""
    async with running_sidecar(read_settings(settings_file(folder, more), {})) as sidecar:
        yield Operated(folder, sidecar.boot_secret, Ed25519Signer(private))


def head(definition_id: str, request_id: str, **more: Any) -> lifecycle_pb2.StepHeader:
    """Return what a step carries."""
    return lifecycle_pb2.StepHeader(definition_id=definition_id, request_id=request_id, reason="a test says so", **more)


def flag_rewards(folder: Path) -> None:
    """Let the entry `rewards` name its flag, as a new sub-agent does."""
    config = folder / "config" / "agent_config.yaml"
    text = config.read_text(encoding="utf-8")
    named = text.replace("  - id: rewards\n", "  - id: rewards\n    enabled_via_flag: ai_assistant_subagent_rewards\n")
    assert named != text
    config.write_text(named, encoding="utf-8")


async def test_a_kill_holds_over_restarts(folder: Path) -> None:
    """What nothing gates is served; a flagged entry is not; killed by an operator it is gone at once, and stays so."""
    private = Ed25519PrivateKey.generate()
    flag_rewards(folder)
    async with operated(folder, private) as bench:
        before = await bench.offers("turn-1")
        killed = await bench.operate("Kill", lifecycle_pb2.KillRequest(header=head("shop", "r-1")))
        after = await bench.offers("turn-2")
        repeated = await bench.operate("Kill", lifecycle_pb2.KillRequest(header=head("shop", "r-1")))
    async with operated(folder, private) as bench:
        again = await bench.offers("turn-3")
        status = (await bench.operate("Get", reading_pb2.GetRequest(slot="shop"))).status

    assert before == ["ask_shop", "ask_support"]
    assert after == again == ["ask_support"]
    assert killed.result.revision == repeated.result.revision
    assert [each.state for each in status.definitions] == [reading_pb2.LIFECYCLE_STATE_ROLLBACK]


async def test_a_promotion_without_a_gate_client_holds(folder: Path) -> None:
    """Nobody is there to say yes: the entry goes to `test`, which needs no gate, and no further."""
    flag_rewards(folder)
    async with operated(folder, Ed25519PrivateKey.generate()) as bench:
        to_test = lifecycle_pb2.TransitionRequest(
            header=head("rewards", "r-1", expected_revision=1), target_state=reading_pb2.LIFECYCLE_STATE_TEST
        )
        tested = await bench.operate("Transition", to_test)
        promote = lifecycle_pb2.TransitionRequest(
            header=head("rewards", "r-2", expected_revision=tested.result.revision),
            target_state=reading_pb2.LIFECYCLE_STATE_PROMOTE,
        )
        held = await failure_of(bench.operate("Transition", promote))

        assert held.reason == "GATE_HELD"
        assert "ask_rewards" not in await bench.offers("turn-1")


async def test_a_key_that_cannot_be_read_stops_the_start(folder: Path) -> None:
    """It says which setting, and which file."""
    more = f"""
[rollout]
enabled = true
kills_file = "{folder}/kills.jsonl"
[operators]
deployment = "x"
keys = ["{folder}/none.pub"]
"""
    with pytest.raises(SettingsProblem, match=r"operators\.keys: .*none\.pub"):
        async with running_sidecar(read_settings(settings_file(folder, more), {})):
            pass
