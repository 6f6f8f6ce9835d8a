"""A sidecar that may open few files: connections take their share and no more, and an operator still gets through."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from sidecar.adapters.system.files import KEPT_FREE
from tests.support.operating import SETTINGS, Operator, prepared
from tests.support.sidecar_process import SidecarProcess, next_look, place, started

pytestmark = pytest.mark.system

FILES: Final = 256
SHARE: Final = (FILES - KEPT_FREE) // 2
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""What an HTTP/2 client begins with; a connection without it is closed soon."""
OWN: Final = 8
"""Descriptors that a connection to the ops address, a commit or a look at the configuration needs for a moment."""


@contextmanager
def connections(path: Path, count: int) -> Iterator[list[socket.socket]]:
    """Open connections as a client does that never calls anything."""
    with ExitStack() as stack:
        opened = []
        for _ in range(count):
            one = stack.enter_context(socket.socket(socket.AF_UNIX))
            one.settimeout(5)
            one.connect(str(path))
            with suppress(BrokenPipeError):  # it is one of too many, and was closed already
                one.sendall(PREFACE)
            opened.append(one)
        yield opened


def kept_open(opened: list[socket.socket]) -> int:
    """Return how many of them the server has answered; it closes the others."""
    answered = 0
    for one in opened:
        try:
            answered += bool(one.recv(9))
        except ConnectionResetError:
            continue
    return answered


async def files_of(sidecar: SidecarProcess) -> dict[str, Any]:
    """Return what `/readyz` says of files."""
    found: dict[str, Any] = (await sidecar.page("/readyz")).json()["files"]
    return found


@pytest.mark.seconds(90)
async def test_an_operator_kills_while_connections_hold_every_file_that_they_may_have() -> None:
    """256 files; 200 connections to each of the other two sockets: 32 of each stay, and the kill holds at once."""
    with place() as folder:
        operator = Operator(folder=folder, signer=prepared(folder))
        async with started(folder, more=SETTINGS.format(folder=folder), files=FILES) as sidecar:
            assert (await sidecar.event("sidecar.connections_limited"))["connections"] == SHARE
            await sidecar.event("sidecar.readiness")
            before = (await files_of(sidecar))["open"]
            with (
                connections(folder / "dispatch" / "sidecar.sock", 200) as dispatch,
                connections(folder / "agents" / "sidecar.sock", 200) as agents,
            ):
                assert (kept_open(dispatch), kept_open(agents)) == (SHARE, SHARE)
                files = await files_of(sidecar)
                assert files["limit"] == FILES
                assert before + 2 * SHARE - OWN <= files["open"] <= before + 2 * SHARE + OWN
                assert (await operator.killed("shop")).changed
            # The sidecar may still count the connections that have just been closed.
            while (await files_of(sidecar))["open"] > before + OWN:
                await next_look()
            assert "ask_shop" not in await operator.offers("turn-1")
