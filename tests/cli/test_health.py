"""`sidecar health`, against a real socket."""

import asyncio
import json
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path

import pytest

from sidecar.cli.health import OPS_ADDRESS, health, health_alone
from sidecar.settings.server import ServerSettings

PATIENCE = 5.0


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Answer every request with the same bytes; yield the address and the first lines of the requests."""
    asked: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
        writer.write(answer)
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(take, "127.0.0.1", 0) as server:
        yield "127.0.0.1:{1}".format(*server.sockets[0].getsockname()), asked


async def ask(address: str, patience: float = PATIENCE) -> tuple[int, str]:
    """Return the exit code and what was printed."""
    out = StringIO()
    return await asyncio.to_thread(health, address, patience, out), out.getvalue()


@pytest.mark.parametrize(
    ("answer", "code", "printed"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nready", 0, "ready (200): ready\n"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 0, "ready (200)\n"),
        (b"HTTP/1.1 503 No\r\ncontent-length: 8\r\n\r\ndraining", 1, "not ready (503): draining\n"),
    ],
)
async def test_the_exit_code_is_what_the_sidecar_says(answer: bytes, code: int, printed: str) -> None:
    """Ready with and without a word, and draining."""
    async with answering(answer) as (address, asked):
        assert await ask(address) == (code, printed)
    assert asked == [b"GET /readyz HTTP/1.1"]


async def test_an_answer_that_is_no_http_is_no_health() -> None:
    """Something else listens there."""
    async with answering(b"SSH-2.0\r\n") as (address, _):
        code, printed = await ask(address)
    assert (code, printed.startswith(f"no answer at {address}: ")) == (1, True)


async def test_nobody_at_the_address_is_no_health() -> None:
    """The sidecar has not started, or listens elsewhere."""
    async with answering(b"") as (address, _):
        pass
    code, printed = await ask(address)
    assert (code, printed.startswith(f"no answer at {address}: ")) == (1, True)


async def test_a_sidecar_that_hangs_is_no_health() -> None:
    """It takes the connection and says nothing; the patience is as short as can be."""
    unanswered = asyncio.Event()

    async def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await unanswered.wait()
        writer.close()

    async with await asyncio.start_server(hold, "127.0.0.1", 0) as server:
        address = "127.0.0.1:{1}".format(*server.sockets[0].getsockname())
        code, printed = await ask(address, 0.01)
        unanswered.set()
    assert (code, "no answer" in printed) == (1, True)


PROGRAM = """
import atexit, json, sys
before = len(sys.modules)
ours = lambda: [name for name in sys.modules if name.startswith("sidecar")]
atexit.register(lambda: print(json.dumps([len(sys.modules) - before, ours()])))
from sidecar.entry import main
main()
"""
MOST_MODULES = 60
"""Beside those of the interpreter; the whole command line needs some 500."""


async def test_a_health_check_does_not_import_the_program(tmp_path: Path) -> None:
    """The command as an image types it, in a process of its own: the modules that it has in the end are counted."""
    async with answering(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nready") as (address, asked):
        file = tmp_path / "sidecar.toml"
        file.write_text(f'[server]\nops_address = "{address}"\n')
        command = [sys.executable, "-I", "-c", PROGRAM, "health", "--config", str(file)]
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, timeout=300, check=False
        )

    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    number, ours = json.loads(second)
    assert (first, len(asked)) == ("ready (200): ready", 1)
    assert sorted(ours) == ["sidecar", "sidecar.cli", "sidecar.cli.health", "sidecar.entry"]
    assert number < MOST_MODULES


def test_the_command_and_the_image_begin_where_a_health_check_is_light() -> None:
    """The script of the package, and the image's health check, which types that command."""
    root = Path(__file__).parents[2]
    assert tomllib.loads((root / "pyproject.toml").read_text())["project"]["scripts"]["sidecar"] == "sidecar.entry:main"
    assert 'CMD ["sidecar", "health", "--config", "/etc/sidecar/sidecar.toml"]' in (root / "Dockerfile").read_text()


def test_the_address_that_is_asked_is_the_one_of_the_settings() -> None:
    """By default; the variable wins over the file, in any case of letters, as for every setting."""
    assert ServerSettings.SETTINGS["ops_address"].default == OPS_ADDRESS


@pytest.mark.parametrize("variable", ["SIDECAR__SERVER__OPS_ADDRESS", "sidecar__server__ops_address"])
async def test_a_variable_says_where_to_ask_whatever_the_file_says(variable: str, tmp_path: Path) -> None:
    """Every way to write the option."""
    file = tmp_path / "sidecar.toml"
    file.write_text('[server]\nops_address = "127.0.0.1:1"\n')
    async with answering(b"HTTP/1.1 200 OK\r\n\r\n") as (address, asked):
        for arguments in (["health"], ["health", "--config", str(file)], ["health", "-c", str(file)]):
            assert await asyncio.to_thread(health_alone, arguments, {variable: address}, StringIO()) == 0
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("arguments", "content"),
    [
        (["serve"], ""),
        (["health", "--help"], ""),
        (["health", "--config"], ""),
        (["health", "--config", "FILE", "--verbose"], ""),
        (["health", "--config", "FILE"], "no TOML"),
        (["health", "--config", "FILE"], "a = " + "[" * 100_000),
        (["health", "--config", "FILE"], "server = 1"),
        (["health", "--config", "FILE"], "[server]\nops_address = 9464"),
        (["health", "--config", "FILE"], '[server]\nops_address = "nowhere"'),
        (["health", "--config", "FILE"], '[server]\nops_address = "127.0.0.1:99999"'),
        (["health", "--config", "elsewhere"], ""),
    ],
)
def test_what_is_wrong_is_left_to_the_whole_command_line(arguments: list[str], content: str, tmp_path: Path) -> None:
    """Other commands, other options, and files that say no address: it has the messages for them."""
    file = tmp_path / "sidecar.toml"
    file.write_text(content)
    out = StringIO()
    assert health_alone([str(file) if each == "FILE" else each for each in arguments], {}, out) is None
    assert out.getvalue() == ""


async def test_a_sidecar_that_listens_on_every_address_is_asked_on_this_machine() -> None:
    """`0.0.0.0` is what a pod sets."""
    async with answering(b"HTTP/1.1 200 OK\r\n\r\nyes") as (address, _):
        assert await ask(f"0.0.0.0:{address.rpartition(':')[2]}") == (0, "ready (200): yes\n")
