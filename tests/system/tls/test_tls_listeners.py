"""Who gets in over TCP: certificates that the table of peers names, and no others. Reliability rows 39, 46 and 60."""

import asyncio
import datetime as dt
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from sidecar.rpc.authorisation import BOOT_SECRET_KEY
from sidecar.settings import SettingsProblem, read_settings
from subagents.dispatch.v1 import dispatch_pb2_grpc
from tests.support.authority import AGENT, DAY, HOST, OPERATOR, Authority, Issued
from tests.support.requests import a_bind, failure_of
from tests.support.sidecar_process import place, settings_file
from tests.support.tls_sidecar import SETTINGS, a_tls_sidecar, settings_text

HEALTH = "/grpc.health.v1.Health/Check"


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a sidecar keeps its files."""
    with place() as made:
        yield made


async def bind(channel: grpc.aio.Channel, turn_id: str = "t-1", **metadata: str) -> Any:
    """Bind a turn without a boot secret."""
    stub: Any = dispatch_pb2_grpc.DispatchServiceStub(channel)
    return await stub.BindTurn(a_bind(turn_id=turn_id), timeout=10, metadata=tuple(metadata.items()) or None)


async def check(channel: grpc.aio.Channel) -> Any:
    """Ask for health."""
    ask: Any = channel.unary_unary(HEALTH)
    return await ask(b"", timeout=10)


async def test_a_listed_certificate_binds_a_turn_without_the_boot_secret(folder: Path) -> None:
    """The certificate takes its place; on the Unix socket it is still required."""
    async with a_tls_sidecar(folder) as served:
        channel = await served.channel("dispatch", served.authority.issue(AGENT))
        assert (await bind(channel)).surface_token
        async with grpc.aio.insecure_channel(f"unix:{served.folder}/dispatch/sidecar.sock") as plain:
            assert (await failure_of(bind(plain))).reason == "BOOT_SECRET_WRONG"


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("spiffe://tests.example/ns/assistant/sa/other",), "may not call this listener"),
        ((HOST,), "may not call this listener"),
        ((OPERATOR,), "may not call this listener"),
        ((AGENT, "spiffe://tests.example/ns/b"), "proves no identity"),
        ((AGENT, "https://tests.example/ns/b"), "proves no identity"),
        (("https://tests.example/ns/assistant/sa/agent",), "proves no identity"),
        (("dns:" + AGENT,), "proves no identity"),
        (("agent@tests.example",), "proves no identity"),
        ((), "proves no identity"),
    ],
)
async def test_a_certificate_that_the_table_does_not_name_is_refused(
    folder: Path, names: tuple[str, ...], told: str
) -> None:
    """The common name of each is that of the admitted agent, and does not count."""
    async with a_tls_sidecar(folder) as served:
        issued = served.authority.issue(*names, common_name=AGENT[:64])
        channel = await served.channel("dispatch", issued)
        for refused in (await failure_of(bind(channel)), await failure_of(check(channel))):
            assert (refused.code, refused.reason) == (grpc.StatusCode.PERMISSION_DENIED, "CALLER_NOT_ALLOWED")
            assert told in refused.message


@pytest.mark.parametrize("who", ["expired", "not yet valid", "another authority", "nobody"])
async def test_a_certificate_that_does_not_hold_ends_the_handshake(folder: Path, who: str) -> None:
    """No request is read from a caller without a valid certificate of our authority."""
    async with a_tls_sidecar(folder) as served:
        good = served.authority
        stranger = Authority("authority of the tests").issue(AGENT)
        issued = {
            "expired": good.issue(AGENT, life=(-2 * DAY, -DAY)),
            "not yet valid": good.issue(AGENT, life=(DAY, 2 * DAY)),
            "another authority": Issued(good.pem, stranger.certificate, stranger.key),
            "nobody": Issued(good.pem, b"", b""),
        }[who]
        credentials = grpc.ssl_channel_credentials(good.pem) if who == "nobody" else issued.channel_credentials()
        options = (("grpc.use_local_subchannel_pool", 1),)
        async with grpc.aio.secure_channel(served.address("dispatch"), credentials, options=options) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await check(channel)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_client_without_tls_gets_nothing(folder: Path) -> None:
    """Not even an error in plain text."""
    async with a_tls_sidecar(folder) as served:
        async with grpc.aio.insecure_channel(served.address("dispatch")) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await check(channel)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_the_boot_secret_opens_nothing_over_tls(folder: Path) -> None:
    """A certificate that is not listed is refused with the right secret, too."""
    async with a_tls_sidecar(folder) as served:
        channel = await served.channel("dispatch", served.authority.issue(HOST))
        refused = await failure_of(bind(channel, **{BOOT_SECRET_KEY: served.sidecar.boot_secret}))
        assert refused.reason == "CALLER_NOT_ALLOWED"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
@pytest.mark.parametrize(
    ("newest", "negotiated"),
    [
        (ssl.TLSVersion.TLSv1_3, "TLSv1.3"),
        (ssl.TLSVersion.TLSv1_2, "TLSv1.2"),
        (ssl.TLSVersion.TLSv1_1, None),
    ],
)
async def test_the_newest_version_of_tls_is_negotiated_and_none_below_1_2(
    folder: Path, newest: ssl.TLSVersion, negotiated: str | None
) -> None:
    """OpenSSL plays a client of each age."""
    async with a_tls_sidecar(folder) as served:
        files = served.authority.issue(AGENT).written(served.folder / "client")
        context = ssl.create_default_context(cafile=str(files.ca_file))
        context.load_cert_chain(str(files.certificate_file), str(files.key_file))
        context.set_alpn_protocols(["h2"])
        context.set_ciphers("ALL:@SECLEVEL=0")  # without it, this OpenSSL would not even offer 1.1
        context.minimum_version, context.maximum_version = ssl.TLSVersion.MINIMUM_SUPPORTED, newest
        host, _, port = served.address("dispatch").rpartition(":")

        def connect() -> str | None:
            plain = socket.create_connection((host, int(port)), timeout=10)
            with plain, context.wrap_socket(plain, server_hostname=host) as secured:
                return secured.version()

        if negotiated is None:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.to_thread(connect)
        else:
            assert await asyncio.to_thread(connect) == negotiated


async def test_the_page_of_readiness_says_where_and_until_when(folder: Path) -> None:
    """Addresses, the end of the certificate, and no problem."""
    async with a_tls_sidecar(folder) as served:
        section = served.sidecar.readiness.detail()["tls"]
        assert set(section["addresses"]) == {"dispatch", "agents", "operators"}
        (mine,) = section["certificates"].values()
        assert dt.datetime.fromisoformat(mine["ends"]) > dt.datetime.now(dt.UTC)
        assert mine["problem"] == ""


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (('key_file = "{folder}/server/tls.key"', ""), "nothing is served over TCP without mutual TLS"),
        (('dispatch = "127.0.0.1:0"', 'dispatch = "127.0.0.1"'), "must be an address and a port"),
        (
            ('"127.0.0.1:{agents_port}"\nagents_target = "dns:localhost:{agents_port}"', '"0.0.0.0:{agents_port}"'),
            "agents_target is required",
        ),
        (
            ('"127.0.0.1:{agents_port}"\nagents_target = "dns:localhost:{agents_port}"', '"[::0]:{agents_port}"'),
            "agents_target is required",
        ),
        (
            ('"127.0.0.1:{agents_port}"\nagents_target = "dns:localhost:{agents_port}"', '"127.0.0.1:0"'),
            "agents_target is required",
        ),
        (('identities = ["{agent}"]', 'identities = ["*.example"]'), "wildcards and common names do not count"),
        (('identities = ["{agent}"]', 'identities = ["CN=agent"]'), "is neither a SPIFFE id"),
        (('identities = ["{agent}"]', 'identities = ["{host}"]'), "is in peers."),
        (('may = ["agents"]\nslots = ["shop"]', 'may = ["agents"]'), "needs `slots` or `verticals`"),
        (('may = ["operators"]', 'may = ["dispatch"]'), "listeners.operators would refuse every caller"),
        (('keys = ["{folder}/operator.key.pub"]', ""), "tls.listeners.operators needs"),
    ],
)
def test_settings_that_would_open_too_much_or_nothing_stop_the_start(
    folder: Path, change: tuple[str, str], told: str
) -> None:
    """Each says which setting, and why."""
    assert change[0] in SETTINGS
    text = settings_text(folder, SETTINGS.replace(*change, 1))
    with pytest.raises(SettingsProblem) as stopped:
        read_settings(settings_file(folder, text), {})
    assert told in "\n".join(stopped.value.problems)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("dispatch_socket", "0.0.0.0:7443"), ("agents_socket", "shop.example:80")],
)
def test_an_address_beyond_loopback_without_mutual_tls_stops_the_start(folder: Path, setting: str, value: str) -> None:
    """Nothing is served in plain text beyond this machine."""
    variables = {f"SIDECAR__SERVER__{setting.upper()}": value}
    with pytest.raises(SettingsProblem) as stopped:
        read_settings(settings_file(folder), variables)
    assert "served with mutual TLS only" in "\n".join(stopped.value.problems)
