"""With `[principals]` a turn is for the user of a verified token, whatever the consumer-agent says."""

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import pytest

from sidecar.composition.running import Sidecar, running_sidecar
from sidecar.settings import SettingsProblem, read_settings
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import dispatch_pb2_grpc, outcome_pb2
from subagents.history.v1 import history_pb2, history_pb2_grpc, record_pb2
from subagents_client import SidecarClient, ToolCall, TurnRequest
from subagents_client.runner import Run, RunnerHost
from tests.support.oidc import AUDIENCE, URL, Issuer
from tests.support.requests import a_bind, failure_of
from tests.support.sidecar_process import PATIENT, next_look, place, settings_file

SETTINGS: Final = """
[principals]
url = "{url}"
audience = "{audience}"
jwks_file = "{folder}/jwks.json"
"""
ASSERTED: Final = pb.TURN_SOURCE_SCHEDULED


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a sidecar keeps its files."""
    with place() as made:
        yield made


@dataclass
class Verifying:
    """A sidecar that wants tokens, and the issuer of them."""

    sidecar: Sidecar
    issuer: Issuer
    folder: Path
    channel: grpc.aio.Channel

    def token(self, user: str = "user-1", **claims: Any) -> str:
        """Return a token of a user."""
        return self.issuer.token("ed-1", int(time.time()), sub=user, **claims)

    @property
    def stub(self) -> Any:
        """The dispatch service."""
        return dispatch_pb2_grpc.DispatchServiceStub(self.channel)

    async def bind(self, **fields: Any) -> pb.BindTurnResponse:
        """Bind a turn with the boot secret."""
        metadata = (("x-subagents-boot-secret", self.sidecar.boot_secret),)
        answer: pb.BindTurnResponse = await self.stub.BindTurn(a_bind(**fields), timeout=10, metadata=metadata)
        return answer

    def client(self) -> SidecarClient:
        """Return the SDK's client."""
        target = f"unix:{self.folder}/dispatch/sidecar.sock"
        return SidecarClient.connect(target, boot_secret=self.sidecar.boot_secret, limits=PATIENT)


@asynccontextmanager
async def verifying(folder: Path, more: str = "") -> AsyncIterator[Verifying]:
    """Run a sidecar once the keys of the issuer are there."""
    issuer = Issuer("ed-1")
    (folder / "jwks.json").write_bytes(issuer.jwks())
    text = SETTINGS.format(url=URL, audience=AUDIENCE, folder=folder) + more
    async with (
        running_sidecar(read_settings(settings_file(folder, text), {})) as sidecar,
        grpc.aio.insecure_channel(f"unix:{folder}/dispatch/sidecar.sock") as channel,
    ):
        found = Verifying(sidecar, issuer, folder, channel)
        while "keys" in (await failure_or_none(found)):
            await next_look()
        yield found


async def failure_or_none(found: Verifying) -> str:
    """Return why a bind with a good token fails; empty: it does not."""
    try:
        await found.bind(turn_id="t-0", principal="", user_token=found.token())
    except grpc.aio.AioRpcError as error:
        return error.details() or ""
    return ""


@asynccontextmanager
async def a_shop(folder: Path, users: list[str]) -> AsyncIterator[None]:
    """Serve the sub-agent `shop`; it notes for whom it runs."""
    host = RunnerHost()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        users.append(run.context.principal)
        return "an answer"

    async with host.serving(f"unix:{folder}/shop.sock"):
        yield


async def test_the_turn_is_for_the_user_of_the_token_and_the_record_says_so(folder: Path) -> None:
    """The SDK names no principal; the sub-agent runs for the token's; the record says what proved it."""
    users: list[str] = []
    async with verifying(folder) as found, a_shop(folder, users), found.client() as client:
        turn = await client.bind_turn(
            TurnRequest(principal="", episode_id="e-1", turn_id="t-1", user_token=found.token("user-7"))
        )
        await turn.dispatch_and_wait([ToolCall("c-1", "ask_shop", '{"request":"two offers"}')])
        await turn.end("done")
        metadata = (("x-subagents-boot-secret", found.sidecar.boot_secret),)
        history: Any = history_pb2_grpc.HistoryServiceStub(found.channel)
        seen = await history.GetTurn(history_pb2.GetTurnRequest(turn_id="t-1"), timeout=10, metadata=metadata)
    assert users == ["user-7"]
    assert seen.turn.principal == "user-7"
    assert [each.principal_source for each in seen.dispatches] == [record_pb2.PRINCIPAL_SOURCE_USER_TOKEN]
    assert [each.outcomes[0].outcome for each in seen.dispatches] == [outcome_pb2.OUTCOME_SUCCEEDED]


def all_of(folder: Path) -> bytes:
    """Return every file, joined."""
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize("lane", [True, False])
async def test_the_token_is_nowhere_afterwards(
    folder: Path, lane: bool, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither in a file of the sidecar, nor in the log, nor in the turn that it keeps, whether it held or not."""
    good = forged = ""
    async with verifying(folder) as found, a_shop(folder, []):
        good, forged = found.token("user-7"), found.token("user-7", aud="another")
        target = f"unix:{folder}/dispatch/sidecar.sock"
        client = SidecarClient.connect(target, boot_secret=found.sidecar.boot_secret, limits=PATIENT, session_lane=lane)
        async with client:
            for _ in range(2):  # the second bind uses the lane, if there is one
                turn = await client.bind_turn(TurnRequest(principal="", episode_id="e-1", user_token=good))
                await turn.dispatch_and_wait([ToolCall("c-1", "ask_shop", '{"request":"two offers"}')])
                assert good not in repr(list(found.sidecar.operations.turns))
                await turn.end("done")
            assert (await failure_of(found.bind(turn_id="t-9", user_token=forged))).reason == "UNAUTHENTICATED"
    kept = all_of(folder)
    written = caplog.text + "".join(capfd.readouterr())
    for token in (good, forged):
        for part in token.split(".")[1:]:  # claims and signature
            assert part.encode() not in kept
            assert part not in written
    assert b"user-7" in kept


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"principal": "user-1"}, "missing"),
        ({"principal": "user-1", "source": ASSERTED}, "missing"),
        ({"principal": "user-2", "user_token": "good"}, "other_user"),
        ({"principal": "user-1", "user_token": "expired"}, "expired"),
        ({"principal": "", "user_token": "x" * 9000}, "malformed"),
    ],
)
async def test_the_consumer_agents_word_is_not_enough(folder: Path, fields: dict[str, Any], cause: str) -> None:
    """No token, one of another user, one that has expired: nothing is bound."""
    async with verifying(folder) as found:
        tokens = {"good": found.token(), "expired": found.token(iat=1, exp=600)}
        asked = {**fields, "user_token": tokens.get(fields.get("user_token", ""), fields.get("user_token", ""))}
        refused = await failure_of(found.bind(turn_id="t-1", **asked))
        assert (refused.code, refused.reason) == (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")
        assert refused.metadata["cause"] == cause
        assert [turn for turn in found.sidecar.operations.turns if turn.claims.turn_id == "t-1"] == []


async def test_turns_without_a_user_at_hand_may_be_excepted(folder: Path) -> None:
    """Scheduled turns by the settings; a chat still needs a token, and a token that comes with one still counts."""
    async with verifying(folder, 'asserted_sources = ["scheduled"]\n') as found:
        assert (await found.bind(turn_id="t-1", principal="user-5", source=ASSERTED)).surface_token
        refused = await failure_of(found.bind(turn_id="t-2", principal="user-5", source=pb.TURN_SOURCE_NOTIFICATION))
        mixed = await failure_of(
            found.bind(turn_id="t-3", principal="user-5", source=ASSERTED, user_token=found.token("user-6"))
        )
        verified = {turn.claims.turn_id: turn.claims.verified for turn in found.sidecar.operations.turns}
    assert (refused.metadata["cause"], mixed.metadata["cause"]) == ("missing", "other_user")
    assert verified == {"t-0": True, "t-1": False}


async def test_a_token_that_nothing_verifies_is_refused(folder: Path) -> None:
    """Without `[principals]` it would be ignored, and its sender would believe that it was verified."""
    async with (
        running_sidecar(read_settings(settings_file(folder), {})) as sidecar,
        grpc.aio.insecure_channel(f"unix:{folder}/dispatch/sidecar.sock") as channel,
    ):
        found = Verifying(sidecar, Issuer("ed-1"), folder, channel)
        refused = await failure_of(found.bind(turn_id="t-1", user_token=found.token()))
    assert (refused.reason, list(refused.fields)) == ("INVALID_REQUEST", ["user_token"])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (('jwks_file = "{folder}/jwks.json"', ""), "give either jwks_file or jwks_url"),
        (('jwks_file = "{folder}/jwks.json"', 'jwks_url = "http://issuer.example/"'), "https, or http on loopback"),
        (("[principals]", '[principals]\nleeway = "10m"'), "principals.leeway"),
        (("[principals]", '[principals]\nasserted_sources = ["chat"]'), "principals.asserted_sources"),
        (("[principals]", '[principals]\nalgorithms = ["HS256"]'), "principals.algorithms"),
    ],
)
def test_settings_that_would_prove_nothing_stop_the_start(folder: Path, change: tuple[str, str], told: str) -> None:
    """Each says which setting, and why."""
    text = SETTINGS.replace(*change).format(url=URL, audience=AUDIENCE, folder=folder)
    with pytest.raises(SettingsProblem) as stopped:
        read_settings(settings_file(folder, text), {})
    assert told in "\n".join(stopped.value.problems)
