"""Every connection over TLS: SDK, sidecar, a host at a TCP address, its way back to the tool gateway, and operators."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sidecar.adapters.checkpoints import read_or_make_signer
from sidecar.cli.subagent.client import CannotOperate, OperatorClient, SidecarAddress
from sidecar.core.operators.role_tokens import RoleClaims, seal
from subagents.lifecycle.v1 import reading_pb2
from subagents_client import CallOutcome, SidecarClient, TlsFiles, ToolCall, TurnRequest
from subagents_client.runner import HostTls, Run, RunnerHost
from subagents_errors import CallerNotAllowed
from tests.support.authority import AGENT, HOST, OPERATOR, Authority
from tests.support.sidecar_process import PATIENT, place
from tests.support.tls_sidecar import TlsSidecar, a_tls_sidecar

SIDECAR = "sidecar.tests.example"
RUNNER = """
[runners.grpc]
plugin = "grpc"
ca_file = "{folder}/runner/ca.pem"
client_certificate_file = "{folder}/runner/tls.crt"
client_key_file = "{folder}/runner/tls.key"
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a sidecar keeps its files."""
    with place() as made:
        yield made


@asynccontextmanager
async def a_remote_shop(
    files: TlsFiles, told: list[Any], callers: tuple[str, ...] = (SIDECAR,)
) -> AsyncIterator[Mapping[str, str]]:
    """Serve the sub-agent `shop` over TLS; it reads its own turns. Gives the variable with its address."""
    host = RunnerHost(tls=HostTls(files=files, callers=callers))

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        try:
            told.append(await run.read_own_turns())
        except CallerNotAllowed as refused:
            told.append(refused)
        return "an answer"

    async with host.serving("127.0.0.1:0") as address:
        yield {"SIDECAR__TARGETS__SLOTS__SHOP": "dns:" + address.replace("127.0.0.1", "localhost")}


async def asked(served: TlsSidecar, folder: Path) -> CallOutcome:
    """Have the SDK bind, dispatch to the shop, and end a turn over TLS."""
    files = served.authority.issue(AGENT).written(folder / "client")
    target = f"dns:{served.address('dispatch')}"
    async with SidecarClient.connect_over_tls(target, files, timeouts=PATIENT) as client:
        turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="e-1"))
        result = await turn.dispatch_and_wait([ToolCall("c-1", "ask_shop", '{"request":"two offers"}')])
        await turn.end("done")
    return result.outcomes[0]


async def test_a_turn_passes_through_four_certificates(folder: Path) -> None:
    """The host answers, and reads its own turns at the agents listener with the grant of its attempt."""
    authority, told = Authority(), list[Any]()
    authority.issue(SIDECAR).written(folder / "runner")
    files = a_host(authority, folder)
    async with (
        a_remote_shop(files, told) as variables,
        a_tls_sidecar(folder, RUNNER.format(folder=folder), authority, variables) as served,
    ):
        outcome = await asked(served, folder)
    assert (outcome.narration, told) == ("an answer", [[]])


def a_host(authority: Authority, folder: Path) -> TlsFiles:
    """Return certificates of a host: its SPIFFE id, and the name that the sidecar connects to."""
    return authority.issue(HOST, "localhost").written(folder / "host")


async def test_a_host_may_not_use_the_grant_of_another_slot(folder: Path) -> None:
    """The table lets its certificate act for `rewards` only: a stolen grant is refused. Reliability row 46."""
    authority, told = Authority(), list[Any]()
    authority.issue(SIDECAR).written(folder / "runner")
    async with a_remote_shop(a_host(authority, folder), told) as variables:
        other = {**variables, "SIDECAR__TLS__PEERS__SHOP__SLOTS": '["rewards"]'}
        async with a_tls_sidecar(folder, RUNNER.format(folder=folder), authority, other) as served:
            outcome = await asked(served, folder)
    assert outcome.narration == "an answer"
    assert [type(each) for each in told] == [CallerNotAllowed]
    assert "the peer `shop` may not act for the sub-agent `shop`" in told[0].message


@pytest.mark.parametrize(("slots", "verticals", "admitted"), [("*", "", True), ("", "shop", True), ("", "x", False)])
async def test_a_host_may_be_admitted_by_vertical_and_for_all(
    folder: Path, slots: str, verticals: str, admitted: bool
) -> None:
    """`*` stands for every slot; a vertical for all of its slots."""
    authority, told = Authority(), list[Any]()
    authority.issue(SIDECAR).written(folder / "runner")
    allowed = {
        "SIDECAR__TLS__PEERS__SHOP__SLOTS": f'["{slots}"]' if slots else "[]",
        "SIDECAR__TLS__PEERS__SHOP__VERTICALS": f'["{verticals}"]' if verticals else "[]",
    }
    more = RUNNER.format(folder=folder)
    async with (
        a_remote_shop(a_host(authority, folder), told) as variables,
        a_tls_sidecar(folder, more, authority, {**variables, **allowed}) as served,
    ):
        await asked(served, folder)
    assert [isinstance(each, CallerNotAllowed) for each in told] == [not admitted]


async def test_a_host_refuses_a_sidecar_that_it_does_not_list(folder: Path) -> None:
    """A certificate of the same authority is not enough to have attempts run."""
    authority, told = Authority(), list[Any]()
    authority.issue(SIDECAR).written(folder / "runner")
    async with (
        a_remote_shop(a_host(authority, folder), told, callers=("other.example",)) as variables,
        a_tls_sidecar(folder, RUNNER.format(folder=folder), authority, variables) as served,
    ):
        outcome = await asked(served, folder)
    assert (outcome.narration, told) == ("", [])


async def test_a_host_of_another_authority_gets_no_attempt(folder: Path) -> None:
    """The sidecar compares the host's certificate with its own list of authorities, and the name with the address."""
    authority, told = Authority(), list[Any]()
    authority.issue(SIDECAR).written(folder / "runner")
    files = a_host(Authority("a stranger"), folder)
    async with (
        a_remote_shop(files, told) as variables,
        a_tls_sidecar(folder, RUNNER.format(folder=folder), authority, variables) as served,
    ):
        outcome = await asked(served, folder)
    assert (outcome.narration, told) == ("", [])


def desk(served: TlsSidecar, certificate: str) -> SidecarAddress:
    """Return where operators are served, a valid role token, and a folder with a certificate as Kubernetes names it."""
    issued, files = served.authority.issue(certificate), served.folder / "desk"
    files.mkdir(exist_ok=True)
    for name, content in (("ca.crt", issued.authority), ("tls.crt", issued.certificate), ("tls.key", issued.key)):
        (files / name).write_bytes(content)
        (files / name).chmod(0o600)
    signer = read_or_make_signer(served.folder / "operator.key")
    claims = {"aud": "tests", "sub": "ada@example", "role": "viewer", "jti": "t-1", "kid": signer.key_id}
    begins = int(time.time())
    token = seal(msgspec.convert({**claims, "nbf": begins, "exp": begins + 600}, RoleClaims), signer.sign)
    return SidecarAddress((f"dns:{served.address('operators')}",), token, files)


def listed(where: SidecarAddress) -> int:
    """Ask for all rollouts, as `sidecar subagent list --tls` does; return how many there are."""
    with OperatorClient(where, where.targets[0]) as client:
        return len(client.ask("ListRollouts", reading_pb2.ListRolloutsRequest()).slots)


async def test_an_operator_needs_a_listed_certificate_and_a_role_token(folder: Path) -> None:
    """One without the other is refused, each by its own name."""
    async with a_tls_sidecar(folder) as served:
        assert await asyncio.to_thread(listed, desk(served, OPERATOR)) == 3
        where = desk(served, OPERATOR)
        with pytest.raises(CannotOperate) as without:
            await asyncio.to_thread(listed, SidecarAddress(where.targets, "rt1.none", where.tls))
        with pytest.raises(CannotOperate) as stranger:
            await asyncio.to_thread(listed, desk(served, "stranger.example"))
        with pytest.raises(CannotOperate, match=r"--tls: .*ca.crt cannot be read"):
            await asyncio.to_thread(listed, SidecarAddress(where.targets, where.token, folder / "nothing"))
    assert (without.value.reason, stranger.value.reason) == ("ROLE_TOKEN_INVALID", "CALLER_NOT_ALLOWED")


@pytest.mark.parametrize("callers", [(), ("*",), ("CN=sidecar",)])
def test_a_host_needs_to_name_its_callers(callers: tuple[str, ...]) -> None:
    """Otherwise every certificate of the authority could have attempts run."""
    with pytest.raises(ValueError, match="callers"):
        HostTls(files=TlsFiles(), callers=callers)


async def test_a_unix_socket_with_certificates_is_a_mistake(folder: Path) -> None:
    """TLS that is configured and not used would be taken for protection."""
    files = Authority().issue(AGENT).written(folder / "client")
    with pytest.raises(ValueError, match="which carries no TLS"):
        SidecarClient.connect_over_tls("unix:/run/x.sock", files)
    with pytest.raises(ValueError, match="which carries no TLS"):
        async with RunnerHost(tls=HostTls(files=files, callers=(AGENT,))).serving(f"unix:{folder}/x.sock"):
            pass
    with pytest.raises(ValueError, match="would not be encrypted"):
        SidecarClient.connect("dns:///sidecar.example:7443")


async def test_a_client_refuses_a_server_with_another_name(folder: Path) -> None:
    """A certificate of the authority for another host: no request is sent."""
    async with a_tls_sidecar(folder) as served:
        files = served.authority.issue(AGENT).written(folder / "client")
        named = TlsFiles(
            ca_file=files.ca_file,
            certificate_file=files.certificate_file,
            key_file=files.key_file,
            server_name="another.example",
        )
        async with SidecarClient.connect_over_tls(f"dns:{served.address('dispatch')}", named) as client:
            assert not await client._wire.connected(3)
