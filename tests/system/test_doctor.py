"""`sidecar doctor`: one planted mistake after the other, and what is said about it."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from sidecar.composition.doctor.files import examine_directories
from sidecar.composition.doctor.record import examine_clock
from sidecar.composition.doctor.sockets import examine_sockets
from sidecar.settings import read_settings
from subagents_client.runner import RunnerHost
from tests.plugins.distributions import SitePackages
from tests.support.postgres import PostgresServer
from tests.support.sidecar_process import ROOT, place, serving, settings_file

pytestmark = pytest.mark.system

SILENT: Final = ("shop", "rewards")
AREAS: Final = set("definitions plugins sockets files record ops operators flags runners".split()) | {"data services"}
WANTED: Final = {("files", "keys.files"), ("operators", "")}
"""What the example's settings leave out."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a deployment lies."""
    with place() as made:
        entry = made / "config" / "agent_config.yaml"
        entry.write_text(
            entry.read_text().replace("sub_agents: [shop, rewards, support]", "sub_agents: [shop, rewards]")
        )
        yield made


async def doctor(
    folder: Path, more: str = "", old: str = "", new: str = "", site: Path | str = ""
) -> tuple[int, list[dict[str, Any]]]:
    """Examine a deployment, with more settings and others in place of some; return the exit code and the findings."""
    config = settings_file(folder, more.format(folder=folder))
    config.write_text(config.read_text().replace(old, new) if old else config.read_text())
    command = [sys.executable, "-m", "sidecar", "doctor", "--config", str(config), "--json", "--timeout", "5"]
    environment = {**os.environ, "PYTHONPATH": str(site)}
    process = await asyncio.create_subprocess_exec(*command, stdout=-1, stderr=-1, cwd=ROOT, env=environment)
    out, errors = await process.communicate()
    assert out, errors.decode()
    return process.returncode or 0, json.loads(out)


def wrong(found: list[dict[str, Any]], *areas: str) -> list[tuple[str, str, str]]:
    """Return level, area and text of what is not in order, in these areas or all."""
    return [
        (each["level"], each["area"], f"{each['about']}: {each['text']}")
        for each in found
        if each["level"] != "ok" and (not areas or each["area"] in areas)
    ]


def files_in(folder: Path) -> list[Path]:
    """Return every file and directory below it."""
    return sorted(folder.rglob("*"))


@asynccontextmanager
async def peers(folder: Path) -> AsyncIterator[None]:
    """Run everything that the deployment talks to: two runner hosts, and something at the data service's address."""
    listening = socket.create_server(("127.0.0.1", 0))
    entry = folder / "config" / "agent_config.yaml"
    entry.write_text(entry.read_text().replace("127.0.0.1:8480", f"127.0.0.1:{listening.getsockname()[1]}"))
    hosts = [RunnerHost() for _ in SILENT]
    for host in hosts:
        host.any_sub_agent()(answer)
    with closing(listening):
        async with hosts[0].serving(f"unix:{folder}/shop.sock"), hosts[1].serving(f"unix:{folder}/rewards.sock"):
            yield


async def answer(run: object) -> str:
    """Answer as a sub-agent."""
    return "Yes."


async def test_a_deployment_that_is_in_order_has_no_errors_and_nothing_is_written(folder: Path) -> None:
    """Warnings name what most deployments want, and the examination leaves no file behind."""
    async with peers(folder):
        settings_file(folder)
        before = files_in(folder)
        code, found = await doctor(folder)
        assert files_in(folder) == before
    assert (code, {each["level"] for each in found}) == (0, {"ok", "warning"}), wrong(found)
    assert {(area, text.split(":")[0]) for _, area, text in wrong(found)} == {
        ("files", "keys.files"),
        ("operators", ""),
    }
    assert {each["area"] for each in found} >= {
        "definitions",
        "plugins",
        "sockets",
        "record",
        "ops",
        "runners",
        "flags",
    }


async def test_beside_a_running_sidecar_it_says_that_it_runs(folder: Path) -> None:
    """It takes nothing away from the sidecar: locks are only tried."""
    async with peers(folder), serving(folder) as sidecar:
        listens = await sidecar.event("sidecar.listening")
        code, found = await doctor(folder, "", "127.0.0.1:0", listens["ops_address"])
        texts = [each["text"] for each in found if each["area"] in {"sockets", "ops"}]
    assert code == 0, wrong(found)
    assert texts == ["a running process serves it"] * 2 + ["a sidecar runs there and accepts turns"]


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is planted, and what is said about it."""

    area: str
    text: str
    plant: Callable[[Path], object] = lambda folder: None
    more: str = ""
    old: str = ""
    new: str = ""


def private(folder: Path) -> Path:
    """Make a directory for this user."""
    folder.mkdir(mode=0o700)
    return folder


def secret_for_others(folder: Path) -> None:
    """Let others read the boot secret."""
    secret = private(folder / "dispatch") / "boot-secret"
    secret.write_text("x" * 40)
    secret.chmod(0o644)


def misspelt_block(folder: Path) -> None:
    """Name a prompt block that is not there."""
    entry = folder / "config" / "agent_config.yaml"
    entry.write_text(entry.read_text().replace("[persona-shop, ", "[persona-shopp, "))


MISTAKES: Final = {
    "a directory that lets others in": Mistake(
        "sockets", "lets others in (mode 0755)", lambda folder: (folder / "dispatch").mkdir(mode=0o755)
    ),
    "a file that is no socket": Mistake(
        "sockets", "a file, not a socket", lambda folder: (private(folder / "agents") / "sidecar.sock").touch()
    ),
    "a secret that others may read": Mistake("files", "may be read by others (mode 0644)", secret_for_others),
    "a missing key file": Mistake("files", "k1 cannot be read: No such", more='[keys.files]\nk1 = "{folder}/k1"\n'),
    "a prompt block that is not there": Mistake("definitions", 'did you mean "persona-shop"?', misspelt_block),
    "no definitions": Mistake(
        "definitions", "agent_config.yaml", lambda folder: (folder / "config" / "agent_config.yaml").unlink()
    ),
    "a misspelt slot": Mistake("settings", "no definition has a slot `shopp`", old="shop = ", new="shopp = "),
    "no address of a host": Mistake("runners", "no address of a runner host", old="shop = ", new="# shop = "),
    "a host that does not run": Mistake("runners", "no runner host answers", old="/shop.sock", new="/absent.sock"),
    "a plugin that is not installed": Mistake(
        "plugins", "`flags-nowhere` is not installed", more='[plugins]\nenabled = ["flags-nowhere"]\n'
    ),
    "a flag file that is not there": Mistake(
        "flags",
        "does not answer",
        more='[policy.default]\nflags = "file"\n[flags.file]\nplugin = "file"\npath = "{folder}/flags.json"\n',
    ),
    "a record that is no database": Mistake(
        "record",
        "is not a SQLite database",
        lambda folder: (private(folder / "record") / "record.sqlite").write_bytes(b"no database" * 500),
    ),
    "a record that is forgotten": Mistake(
        "record", "the record is lost", old="[record.sqlite]", new='[record]\ndatabase = "memory"\n[record.sqlite]'
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
async def test_a_mistake_is_named_with_what_to_do(mistake: Mistake, folder: Path) -> None:
    """One planted mistake beside a deployment that is in order."""
    async with peers(folder):
        mistake.plant(folder)
        code, found = await doctor(folder, mistake.more, mistake.old, mistake.new)
    told = [
        each
        for each in found
        if each["area"] == mistake.area and each["remedy"] and mistake.text in f"{each['about']}: {each['text']}"
    ]
    assert len(told) == 1, wrong(found)
    assert code == int(any(each["level"] == "error" for each in found))


async def test_a_data_service_that_does_not_run_is_named_with_its_tools(folder: Path) -> None:
    """Its address is that of the definitions; nothing listens there."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        free = taken.getsockname()[1]
    entry = folder / "config" / "agent_config.yaml"
    entry.write_text(entry.read_text().replace("127.0.0.1:8480", f"127.0.0.1:{free}"))
    _, found = await doctor(folder)
    ((level, _, text),) = wrong(found, "data services")
    assert level == "error"
    assert text.startswith(f"search_offers, points_balance, order_status at 127.0.0.1:{free}: cannot be reached: ")


@pytest.mark.parametrize(
    ("says", "text"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nhello", "another program listens there"),
        (b"220 mail\r\n", "another program listens there"),
        (b"", "another program listens there"),
        (
            b'HTTP/1.1 200 OK\r\n\r\n{"ready": true, "dispatch_socket": "/elsewhere/sidecar.sock"}',
            "another sidecar runs there, with the dispatch socket /elsewhere/sidecar.sock",
        ),
    ],
    ids=["HTTP", "mail", "hangs", "another sidecar"],
)
async def test_another_program_at_the_ops_address_is_named(says: bytes, text: str, folder: Path) -> None:
    """It says something else than this sidecar, speaks no HTTP, or takes the connection and says nothing."""

    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(says)
        if not says:
            await reader.read()  # until the doctor gives up
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(other, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        _, found = await doctor(folder, "", "127.0.0.1:0", address)
    ((level, _, found_text),) = wrong(found, "ops")
    assert level == "error"
    assert found_text.startswith(f"server.ops_address {address}: {text}")


async def test_the_clock_of_a_database_is_compared(folder: Path, postgres: PostgresServer) -> None:
    """A real PostgreSQL on this machine: no skew, and the schema steps that a start would apply."""
    dsn = folder / "dsn"
    dsn.write_text(postgres.dsn(postgres.new_database()))
    dsn.chmod(0o600)
    chosen = f'[record]\ndatabase = "postgresql"\n[record.postgresql]\ndsn_file = "{dsn}"\n[record.sqlite]'
    _, found = await doctor(folder, "", "[record.sqlite]", chosen)
    (schema, clock) = (each for each in found if each["area"] == "record")
    assert schema["text"].endswith("schema steps are applied at the next start")
    assert (clock["level"], clock["about"]) == ("ok", "clock")

    dsn.write_text("postgresql://someone@127.0.0.1:1/nothing")
    _, found = await doctor(folder, "", "[record.sqlite]", chosen)
    ((level, _, _),) = wrong(found, "record")
    assert level == "error"

    settings = read_settings(folder / "sidecar.toml", {})
    lost = await examine_clock(settings, 1.0)  # as if the database had gone since its schema was read
    assert (lost.level, lost.text) == ("warning", "the database's clock cannot be read: ConnectionRefusedError")


BLOCKS: Final = """
import threading
from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.specs import FlagBackendSpec

class Flags:
    async def fetch(self):
        threading.Event().wait()
    async def changed(self): ...
    async def close(self): ...

@hookimpl
def sidecar_flag_backends():
    spec = dict(name="blocks", contract="flag-backend/1", summary="Blocks", config_schema={})
    return [FlagBackendSpec(factory=lambda settings: Flags(), **spec)]
"""


async def test_a_flag_backend_that_blocks_its_thread_is_reported_and_ends_nothing(folder: Path, tmp_path: Path) -> None:
    """For ever, in a call that cannot be interrupted: what is examined after it is examined, and the command ends."""
    SitePackages(tmp_path).install("flags-blocks", BLOCKS, entry="blocks")
    more = (
        '[plugins]\nenabled = ["flags-blocks"]\n[policy.default]\nflags = "blocks"\n[flags.blocks]\nplugin = "blocks"\n'
    )
    _, found = await doctor(folder, more, site=tmp_path)
    ((level, _, text),) = wrong(found, "flags")
    assert (level, text) == ("error", "blocks: does not answer: no answer within 5 s")
    assert found[-1]["area"] in {"runners", "data services"}


def groups(folder: Path, group: int | str = os.getegid()) -> list[tuple[str, str, str]]:
    """Return level, text and remedy of what is found about a group of hosts whose directory is `folder / "shop"`."""
    file = settings_file(
        folder, f'[server.host_groups.shop]\ndirectory = "{folder}/shop"\ngroup = "{group}"\nslots = ["shop"]\n'
    )
    found = examine_sockets(read_settings(file, {}))
    return [(each.level, each.text, each.remedy) for each in found if "host_groups.shop" in each.about]


def test_the_directories_of_a_group_of_hosts_are_examined(folder: Path) -> None:
    """Missing ones are made at the start; owner, group and mode of those that are there are compared."""
    folder.chmod(0o755)
    assert groups(folder) == [("ok", "its directory is created at the start", "")]
    hosts = private(folder / "shop") / "hosts"
    hosts.mkdir(mode=0o777)
    hosts.chmod(0o777)
    shut, wide = groups(folder)
    assert shut[1:] == (f"{hosts.parent} cannot be entered by its group (mode 0700)", f"chmod 0750 {hosts.parent}")
    assert wide[1:] == (f"{hosts} lets others in (mode 0777)", f"chmod 1770 {hosts}")
    hosts.parent.chmod(0o2750)
    hosts.chmod(0o1770)
    assert groups(folder) == [("ok", "free", "")]
    folder.chmod(0o700)
    assert groups(folder)[1:] == [
        ("warning", f"the group cannot enter {folder}, so its hosts cannot reach the socket", f"chmod o+x {folder}")
    ]


def test_a_group_that_does_not_exist_or_cannot_have_the_socket_is_named(folder: Path) -> None:
    """Root may give files to every group, other users to their own: they are told what root has to do."""
    folder.chmod(0o755)
    ((level, text, _),) = groups(folder, "no-such-group")
    assert (level, "there is no group of users `no-such-group`" in text) == ("error", True)
    if os.geteuid() != 0:
        ((level, text, remedy),) = groups(folder, 61_010)
        assert (level, "of which this user is not a member" in text) == ("error", True)
        assert f"install -d -o {os.geteuid()} -g 61010 -m 2750 {folder}/shop" in remedy


@pytest.mark.parametrize(
    ("name", "mode", "level", "text"),
    [
        ("record.sqlite", 0o640, "error", "may be read or written by others (mode 0640)"),
        ("record.sqlite-wal", 0o604, "error", "may be read or written by others (mode 0604)"),
        ("", 0o770, "warning", "others may replace files in"),
        ("", 0o755, "", ""),
        ("", 0o1777, "", ""),
    ],
)
def test_data_that_others_may_read_or_replace_is_named(
    name: str, mode: int, level: str, text: str, folder: Path
) -> None:
    """A directory that others can list tells them names only; with the sticky bit they replace nothing."""
    (private(folder / "record") / name).touch()
    (folder / "record" / name).chmod(mode)
    found = [each for each in examine_directories(read_settings(settings_file(folder), {})) if "record" in each.about]
    assert {each.level for each in found} == ({level} if level else set())
    assert all(text in each.text and each.remedy.startswith("chmod") for each in found)


def test_text_is_for_people() -> None:
    """Sign, area, what, and the remedy below it; a summary at the end; wrong settings end with 78."""

    def ran(*more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "sidecar", "doctor", *more]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    done = ran("--config", "examples/sidecar.toml")
    lines = done.stdout.splitlines()
    assert done.returncode == 1
    assert lines[0] == "ok       definitions   examples/config: 4 agents, 7 tools"
    at = next(number for number, line in enumerate(lines) if line.startswith("ERROR    runners"))
    assert "shop at unix:.run/shop.sock: no runner host answers" in lines[at]
    assert lines[at + 1].strip().startswith("what to do: start the runner host")
    assert lines[-1].endswith(" in order")
    assert ran("--config", "/nowhere").returncode == 78
