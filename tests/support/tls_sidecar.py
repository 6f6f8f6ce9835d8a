"""The whole sidecar in this process with TLS listeners, and channels to them with any certificate."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import grpc

from sidecar.adapters.checkpoints import read_or_make_signer
from sidecar.composition.parts import Overrides
from sidecar.composition.running import Sidecar, running_sidecar
from sidecar.settings import read_settings
from tests.support.authority import AGENT, HOST, LOCAL, OPERATOR, Authority, Issued
from tests.support.sidecar_process import settings_file

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
SETTINGS: Final = """
[tls]
ca_file = "{folder}/server/ca.pem"
certificate_file = "{folder}/server/tls.crt"
key_file = "{folder}/server/tls.key"

[tls.listeners]
dispatch = "127.0.0.1:0"
agents = "127.0.0.1:{agents_port}"
agents_target = "dns:localhost:{agents_port}"
operators = "127.0.0.1:0"

[tls.peers.assistant]
identities = ["{agent}"]
may = ["dispatch"]

[tls.peers.shop]
identities = ["{host}"]
may = ["agents"]
slots = ["shop"]

[tls.peers.desk]
identities = ["{operator}"]
may = ["operators"]

[operators]
socket = "{folder}/operators/sidecar.sock"
deployment = "tests"
keys = ["{folder}/operator.key.pub"]
"""


def settings_text(folder: Path, text: str = SETTINGS) -> str:
    """Return the settings with names, files and a port that is free now filled in."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return text.format(folder=folder, agent=AGENT, host=HOST, operator=OPERATOR, agents_port=port)


@dataclass(slots=True)
class TlsSidecar:
    """A running sidecar.

    Attributes:
        authority: that its listeners trust.
        folder: of its files; `server` holds the certificates.
    """

    sidecar: Sidecar
    authority: Authority
    folder: Path
    opened: AsyncExitStack = field(repr=False)

    def address(self, listener: str) -> str:
        """Return where a listener serves."""
        section: Mapping[str, Any] = self.sidecar.readiness.detail()["tls"]
        bound: str = section["addresses"][listener]
        return bound.replace("127.0.0.1", "localhost")

    async def channel(self, listener: str, issued: Issued) -> grpc.aio.Channel:
        """Return a channel of its own connection, closed at the end of the test."""
        channel = grpc.aio.secure_channel(
            self.address(listener), issued.channel_credentials(), options=(("grpc.use_local_subchannel_pool", 1),)
        )
        self.opened.push_async_callback(channel.close)
        return channel


@asynccontextmanager
async def a_tls_sidecar(
    folder: Path, more: str = "", authority: Authority | None = None, variables: Mapping[str, str] = NOTHING
) -> AsyncIterator[TlsSidecar]:
    """Serve all listeners on sockets and over TLS; `more` is added to the settings, `variables` override them."""
    authority = authority or Authority()
    authority.issue(*LOCAL).written(folder / "server")
    await asyncio.to_thread(read_or_make_signer, folder / "operator.key")
    settings = read_settings(settings_file(folder, settings_text(folder) + more), variables)
    async with AsyncExitStack() as opened:
        sidecar = await opened.enter_async_context(running_sidecar(settings, replaced=Overrides()))
        yield TlsSidecar(sidecar, authority, folder, opened)
