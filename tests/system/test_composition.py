"""The whole built in this process, with a part or two replaced."""

import asyncio
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sidecar.composition.parts import Overrides
from sidecar.composition.record.checkpoints import checkpoint_files
from sidecar.composition.rollout.open_rollout import tombstone_file
from sidecar.composition.running import running_sidecar
from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.protocols import FlagReport
from sidecar.policy.specs import FlagBackendSpec
from sidecar.rpc.socket_files import AddressInUse, exclusive_socket
from sidecar.settings import Settings, read_settings
from subagents_client import SidecarClient, TurnRequest
from tests.support.sidecar_process import place, settings_file

MINE = '[policy.default]\nflags = "mine"\n'


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a sidecar keeps its files."""
    with place() as made:
        yield made


@dataclass
class Mine:
    """A flag backend, and the plugin that offers it."""

    closed: asyncio.Event = field(default_factory=asyncio.Event)

    @hookimpl
    def sidecar_flag_backends(self) -> Sequence[FlagBackendSpec]:
        """Offer itself."""
        return [FlagBackendSpec(name="mine", contract="flag-backend/1", summary="for a test", factory=self._made)]

    def _made(self, settings: Mapping[str, Any]) -> "Mine":
        return self

    async def fetch(self) -> FlagReport:
        """Nothing is on."""
        return FlagReport(frozenset(), "1")

    async def changed(self) -> None:
        """Never hint."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Take note."""
        self.closed.set()


class CountedIds:
    """Ids that a test can foresee."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def new(self, kind: str) -> str:
        """Return `<kind>-<number>`."""
        return f"{kind}-{next(self._numbers)}"


def settings(folder: Path, more: str = "", **variables: str) -> Settings:
    """Return settings whose every address lies in `folder`."""
    return read_settings(settings_file(folder, more), variables)


async def test_a_replaced_part_is_used_and_closed(folder: Path) -> None:
    """A plugin and the source of ids; a turn is bound over the real socket."""
    mine = Mine()
    replaced = Overrides(ids=CountedIds(), plugins=[mine])
    async with running_sidecar(settings(folder, MINE), replaced=replaced) as sidecar:
        async with SidecarClient.connect(
            f"unix:{sidecar.settings.server.dispatch_socket}", boot_secret=sidecar.boot_secret
        ) as client:
            await client.bind_turn(TurnRequest(principal="user-1", episode_id="episode-1"))
        assert (sidecar.operations.turns.open, mine.closed.is_set()) == (1, False)
        assert sidecar.boot_secret not in repr(sidecar)
    assert mine.closed.is_set()


async def test_no_byte_in_a_side_file_decides_readiness(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Invalid UTF-8, and brackets without end, in strings of both files: it starts, is ready, names file and line."""
    damaged = b'{"note":"\xff"}\n{"deep":' + b"[" * 5000 + b"\n"
    said = settings(folder)
    (checkpoints, _), kills = checkpoint_files(said.record), tombstone_file(said)
    for file in (checkpoints, kills):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.touch(mode=0o600)
        file.write_bytes(damaged)

    async with running_sidecar(said) as sidecar:
        assert sidecar.readiness.ready

    told = "\n".join(record.getMessage() for record in caplog.records)
    assert f"lines 1, 2 of {checkpoints}" in told
    assert f"line 1, 2 of {kills}" in told
    assert all(file.read_bytes().startswith(damaged) for file in (checkpoints, kills))


async def test_an_ops_port_in_use_is_told_before_anything_is_made(folder: Path) -> None:
    """No record is created, which another sidecar may use."""
    async with await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0) as other:
        address = "127.0.0.1:{1}".format(*other.sockets[0].getsockname())
        said = settings(folder, SIDECAR__SERVER__OPS_ADDRESS=address)
        with pytest.raises(AddressInUse, match=r"is in use by another process; stop it, or set another port"):
            async with running_sidecar(said):
                pytest.fail("it must not start")
    assert not said.server.boot_secret_file.exists()
    assert not said.record.sqlite.path.exists()


async def test_what_was_built_is_closed_when_building_fails_half_way(folder: Path) -> None:
    """Another process has the last socket: the backend is closed, no socket stays behind, both locks are free."""
    mine = Mine()
    said = settings(folder, MINE)
    with exclusive_socket(said.server.agents_socket), pytest.raises(AddressInUse, match="is served by another process"):
        async with running_sidecar(said, replaced=Overrides(plugins=[mine])):
            pytest.fail("it must not start")
    assert mine.closed.is_set()
    for path in (said.server.dispatch_socket, said.server.agents_socket):
        assert not path.exists()
        with exclusive_socket(path):
            pass
