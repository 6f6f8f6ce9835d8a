"""Operators with tokens of an OIDC issuer, at a whole process: its keys come over HTTP, refusals are counted."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest

from sidecar.composition.running import running_sidecar
from sidecar.core.errors import RoleTokenInvalid
from sidecar.rpc.operators import ROLE_TOKEN_KEY
from sidecar.settings import SettingsProblem, read_settings
from subagents.lifecycle.v1 import lifecycle_pb2, lifecycle_pb2_grpc, reading_pb2
from tests.support.oidc import AUDIENCE, URL, Issuer, serving
from tests.support.plain_http import plain_client
from tests.support.requests import failure_of
from tests.support.sidecar_process import place, settings_file

pytestmark = pytest.mark.system

ISSUER = """
[rollout]
tombstone_file = "{folder}/kills.jsonl"
[operators]
socket = "{folder}/o/s.sock"
[operators.issuer]
url = "{url}"
audience = "{audience}"
jwks_url = "{jwks}"
role_claim = "groups"
roles = {{ ops = "operator", staff = "viewer" }}
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of its own, with definitions."""
    with place() as path:
        yield path


@asynccontextmanager
async def operated(folder: Path, jwks: str) -> AsyncIterator[tuple[Any, str]]:
    """Serve; gives the stub of operators, and where metrics are."""
    more = ISSUER.format(folder=folder, url=URL, audience=AUDIENCE, jwks=jwks)
    async with (
        running_sidecar(read_settings(settings_file(folder, more), {})) as sidecar,
        grpc.aio.insecure_channel(f"unix:{folder}/o/s.sock") as channel,
    ):
        yield lifecycle_pb2_grpc.LifecycleServiceStub(channel), f"http://{sidecar.ops_address}/metrics"


async def test_operators_of_an_issuer_are_told_apart_by_their_groups(folder: Path) -> None:
    """Staff reads and may not kill; ops kills; a stranger does neither, and is counted."""
    issuer, stranger, now = Issuer("ec-1"), Issuer("ec-1"), int(datetime.now(UTC).timestamp())
    staff, ops = (issuer.token("ec-1", now, groups=[group]) for group in ("staff", "ops"))
    header = lifecycle_pb2.StepHeader(definition_id="shop", request_id="r-1", reason="a test says so")
    kill = lifecycle_pb2.KillRequest(header=header)
    with serving(issuer.jwks()) as served:
        async with operated(folder, served.url) as (stub, metrics):
            await until_known(stub, staff)
            listed = await stub.ListRollouts(reading_pb2.ListRolloutsRequest(), metadata=((ROLE_TOKEN_KEY, staff),))
            refused = await failure_of(stub.Kill(kill, metadata=((ROLE_TOKEN_KEY, staff),)))
            strange = stranger.token("ec-1", now)
            unknown = await failure_of(stub.Kill(kill, metadata=((ROLE_TOKEN_KEY, strange),)))
            killed = await stub.Kill(kill, metadata=((ROLE_TOKEN_KEY, ops),))
            async with plain_client() as client:
                counted = (await client.get(metrics)).text

    assert listed.slots
    assert (refused.reason, refused.metadata["cause"]) == ("ROLE_REQUIRED", "role")
    assert (unknown.reason, unknown.metadata["cause"]) == (RoleTokenInvalid.reason, "signature")
    assert killed.result.revision > 1
    assert 'sidecar_operators_refused_total{cause="signature"} 1.0' in counted


async def until_known(stub: Any, token: str) -> None:
    """Return once the keys of the issuer are there, which they are soon after the start."""
    async with asyncio.timeout(10):
        while True:
            try:
                await stub.ListRollouts(reading_pb2.ListRolloutsRequest(), metadata=((ROLE_TOKEN_KEY, token),))
            except grpc.aio.AioRpcError:
                await asyncio.sleep(0)
            else:
                return


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("http://127.0.0.1:1/", "http://issuer.example/"), "https, or http on loopback"),
        (("http://127.0.0.1:1/", "https://user:word@issuer.example/"), "must not contain a user"),
        (("http://127.0.0.1:1/", "file:///etc/keys"), "https, or http on loopback"),
        (("jwks_url", "jwks_file = '/etc/keys'\njwks_url"), "either jwks_file or jwks_url"),
        (('ops = "operator"', 'ops = "root"'), "operators.issuer.roles.ops"),
        (("role_claim", 'algorithms = ["HS256"]\nrole_claim'), "operators.issuer.algorithms"),
        (("role_claim", 'refresh = "2h"\nrole_claim'), "max_key_age must be longer than refresh"),
    ],
)
def test_an_issuer_that_could_not_be_trusted_stops_the_start(folder: Path, change: tuple[str, str], told: str) -> None:
    """It says which setting, and why."""
    more = ISSUER.format(folder=folder, url=URL, audience=AUDIENCE, jwks="http://127.0.0.1:1/")
    with pytest.raises(SettingsProblem) as stopped:
        read_settings(settings_file(folder, more.replace(*change)), {})
    assert told in str(stopped.value.problems)
