"""Data services over mutual TLS: the sidecar shows its certificate, compares theirs, and follows its files."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from sidecar.adapters.connector_grpc.connector import GrpcConnector
from sidecar.adapters.connector_grpc.settings import GrpcConnectorSettings
from sidecar.adapters.connector_rest.connector import RestConnector
from sidecar.adapters.connector_rest.settings import RestSettings
from sidecar.policy.protocols import Connector, EnricherAnswer, EnricherRefused, RefusalKind
from sidecar.settings.kinds import InvalidValues
from subagents_tls.files import TlsFiles
from tests.adapters.connector_rest.calling import call
from tests.support.authority import LOCAL, Authority, Issued
from tests.support.sidecar_process import next_look

BODY = b'{"an": "envelope"}'


class Services:
    """A REST and a gRPC data service that require certificates; `seen` are the certificates of each caller, in DER."""

    def __init__(self, files: TlsFiles, issued: Issued) -> None:
        """Serve with a certificate; `files` hold the same."""
        self._files, self._issued = files, issued
        self.seen: list[bytes] = []
        self.endpoints: dict[str, str] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Services"]:
        """Serve both on free ports."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self._files.ca_file))
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(str(self._files.certificate_file), str(self._files.key_file))
        rest = await asyncio.start_server(self._answer, "127.0.0.1", 0, ssl=context)
        enricher = grpc.aio.server()
        handler: Any = grpc.unary_unary_rpc_method_handler(self._enrich)
        name = "subagents.envelope.v1.EnricherService"
        enricher.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, {"Enrich": handler}),))
        pair = [(self._issued.key, self._issued.certificate)]
        credentials = grpc.ssl_server_credentials(pair, self._issued.authority, require_client_auth=True)
        port = enricher.add_secure_port("127.0.0.1:0", credentials)
        await enricher.start()
        self.endpoints["rest"] = f"https://localhost:{rest.sockets[0].getsockname()[1]}/v1/enrich"
        self.endpoints["grpc"] = f"dns:localhost:{port}"
        async with rest:
            yield self
        await enricher.stop(0)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        secured: ssl.SSLObject = writer.get_extra_info("ssl_object")
        await reader.readuntil(b"\r\n\r\n")
        self.seen.append(secured.getpeercert(binary_form=True) or b"")
        head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(BODY)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + BODY)
        await writer.drain()
        writer.close()

    async def _enrich(self, request: bytes, context: Any) -> bytes:
        (pem,) = context.auth_context()["x509_pem_cert"]
        self.seen.append(ssl.PEM_cert_to_DER_cert(pem.decode()))
        return BODY


def a_connector(kind: str, files: TlsFiles) -> Connector:
    """Return a connector with certificates."""
    named = {
        "ca_file": str(files.ca_file),
        "client_certificate_file": str(files.certificate_file),
        "client_key_file": str(files.key_file),
    }
    if kind == "rest":
        return RestConnector(RestSettings(**named))
    return GrpcConnector(GrpcConnectorSettings(**named))


def der(issued: Issued) -> bytes:
    """Return a certificate as services see it."""
    return ssl.PEM_cert_to_DER_cert(issued.certificate.decode())


@asynccontextmanager
async def served(folder: Path, authority: Authority) -> AsyncIterator[Services]:
    """Serve both kinds with a certificate of an authority."""
    issued = authority.issue(*LOCAL)
    async with Services(issued.written(folder / "service"), issued).running() as services:
        yield services


@pytest.mark.parametrize("kind", ["rest", "grpc"])
async def test_a_renewed_certificate_is_shown_from_the_next_call_on(tmp_path: Path, kind: str) -> None:
    """The connector is the same; the service sees the former certificate, and then the new one."""
    authority = Authority()
    first, second = authority.issue("sidecar.example"), authority.issue("sidecar.example")
    async with served(tmp_path, authority) as services:
        connector = a_connector(kind, first.written(tmp_path / "client"))
        enriching = call(services.endpoints[kind])
        assert isinstance(await connector.enrich(enriching), EnricherAnswer)
        second.written(tmp_path / "client")
        async with asyncio.timeout(20):
            while services.seen[-1] != der(second):
                await next_look()
                assert isinstance(await connector.enrich(enriching), EnricherAnswer)
        await connector.close()
    assert services.seen[0] == der(first)


@pytest.mark.parametrize("kind", ["rest", "grpc"])
async def test_a_service_of_another_authority_gets_no_request(tmp_path: Path, kind: str) -> None:
    """It might be anybody: the call fails, and no principal leaves."""
    async with served(tmp_path, Authority("a stranger")) as services:
        connector = a_connector(kind, Authority().issue("sidecar.example").written(tmp_path / "client"))
        reply = await connector.enrich(call(services.endpoints[kind]))
        await connector.close()
    assert isinstance(reply, EnricherRefused)
    assert (reply.kind, services.seen) == (RefusalKind.UNAVAILABLE, [])


@pytest.mark.parametrize("kind", ["rest", "grpc"])
@pytest.mark.parametrize("half", ["client_certificate_file", "client_key_file"])
def test_half_a_pair_is_refused(kind: str, half: str) -> None:
    """A certificate without its key would silently not be shown."""
    settings: Any = RestSettings if kind == "rest" else GrpcConnectorSettings
    with pytest.raises(InvalidValues, match="both client_certificate_file and client_key_file"):
        settings(ca_file="ca.pem", **{half: "x.pem"})
