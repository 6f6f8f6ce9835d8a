"""A sidecar and runner hosts as real users: a host reaches its own sub-agent's data, and nothing else of the sidecar.

Needs root, because only root starts processes of other users. The user ids need no entry in the list of users.
"""

import asyncio
import json
import os
import stat
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from sidecar.adapters.checkpoints import read_or_make_signer
from subagents_client import ToolCall, TurnRequest
from tests.support.named_skips import needs_root
from tests.support.sidecar_process import ROOT, SidecarProcess, place, started

pytestmark = pytest.mark.system

SIDECAR: Final = "61001:61001:61010,61011"
"""User and group of the sidecar, which is a member of the groups of both hosts."""
SHOP, REWARDS = "61002:61010:", "61003:61011:"
SETTINGS: Final = """
[server.host_groups.shop]
directory = "{folder}/shop"
group = 61010
slots = ["shop"]

[server.host_groups.rewards]
directory = "{folder}/rewards"
group = 61011
verticals = ["rewards"]

[record.checkpoints]
file = "{folder}/record/checkpoints.jsonl"
key_file = "{folder}/record/checkpoint.key"

[operators]
socket = "{folder}/operators/sidecar.sock"
deployment = "tests"
keys = ["{folder}/operator.key.pub"]
"""
REFUSED: Final = "EACCES"
WHY: Final = "only root starts processes of other users"


def as_user(user: str, umask: str) -> Sequence[str]:
    """Return options of an interpreter that runs its module as another user."""
    return ("-m", "tests.support.as_user", user, umask)


@asynccontextmanager
async def process(user: str, umask: str, module: str, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a module as another user, with pipes; kill what is left of it."""
    command = [sys.executable, *as_user(user, umask), "-m", module, *arguments]
    made = await asyncio.create_subprocess_exec(*command, stdin=-1, stdout=-1, cwd=ROOT)
    try:
        yield made
    finally:
        if made.returncode is None:
            made.kill()
        await made.wait()


async def told_by(process: asyncio.subprocess.Process) -> dict[str, Any]:
    """Return the next line that a process writes."""
    assert process.stdout is not None
    async with asyncio.timeout(30):
        told: dict[str, Any] = json.loads(await process.stdout.readline())
    return told


async def tries(user: str, *attempts: Sequence[str]) -> list[str]:
    """Return what becomes of each attempt of a user; empty: it worked."""
    async with process(user, "0022", "tests.support.intruder", json.dumps(attempts)) as intruder:
        out, _ = await intruder.communicate()
    results: list[str] = json.loads(out)
    return results


@dataclass(frozen=True, slots=True)
class Deployment:
    """A sidecar and two hosts, each as another user, with an attempt running at both.

    Attributes:
        grants: of the running attempts, by slot.
        gateways: that the hosts were told.
    """

    sidecar: SidecarProcess
    hosts: Mapping[str, asyncio.subprocess.Process]
    grants: Mapping[str, str]
    gateways: Mapping[str, str]
    outcomes: "asyncio.Task[list[tuple[str, str]]]"

    @property
    def folder(self) -> Path:
        """Where everything lies."""
        return self.sidecar.folder


@asynccontextmanager
async def deployed() -> AsyncIterator[Deployment]:
    """Start the sidecar, then the hosts, and dispatch to both."""
    with place() as folder:
        folder.chmod(0o755)
        os.chown(folder, 61001, 61001)
        read_or_make_signer(folder / "operator.key")
        targets = {
            f"SIDECAR__TARGETS__SLOTS__{slot.upper()}": f"unix:{folder}/{slot}/hosts/host.sock"
            for slot in ("shop", "rewards")
        }
        async with AsyncExitStack() as opened:
            started_as = started(
                folder, more=SETTINGS.format(folder=folder), environment=targets, python=as_user(SIDECAR, "0000")
            )
            sidecar = await opened.enter_async_context(started_as)
            await sidecar.event("sidecar.readiness")
            hosts = {}
            for slot, user in (("shop", SHOP), ("rewards", REWARDS)):
                target = f"unix:{folder}/{slot}/hosts/host.sock"
                served = process(user, "0077", "tests.support.host_of_a_group", slot, target)
                hosts[slot] = await opened.enter_async_context(served)
                assert await told_by(hosts[slot]) == {"serves": slot}
            asked = asyncio.create_task(dispatched(sidecar))
            opened.callback(asked.cancel)
            told = {slot: await told_by(host) for slot, host in hosts.items()}
            grants = {slot: each["grant"] for slot, each in told.items()}
            gateways = {slot: each["gateway"] for slot, each in told.items()}
            yield Deployment(sidecar, hosts, grants, gateways, asked)


async def dispatched(sidecar: SidecarProcess) -> list[tuple[str, str]]:
    """Bind a turn, dispatch to both, end the turn; return outcomes and texts."""
    async with sidecar.client() as client:
        turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="e-1"))
        calls = [ToolCall(slot, f"ask_{slot}", '{"request":"two"}') for slot in ("shop", "rewards")]
        result = await turn.dispatch_and_wait(calls)
        await turn.end("done")
    return [(each.outcome.name, each.narration) for each in result.outcomes]


@pytest.mark.seconds(60)
async def test_a_host_with_a_user_of_its_own_reaches_its_data_and_nothing_else_of_the_sidecar() -> None:
    """Who may do it tries each attempt as well, and succeeds: what is not there would be refused to everyone."""
    needs_root(WHY)
    async with deployed() as running:
        await check_what_a_host_reaches(running)
        await check_whose_grants_count(running)
        check_what_the_sidecar_has_written(running.folder)
        await check_that_the_memory_is_closed(running.sidecar)
        for host in running.hosts.values():
            assert host.stdin is not None
            host.stdin.write(b"\n")
        answered = [("SUCCEEDED", f"{slot} answers after 0 turns") for slot in ("shop", "rewards")]
        async with asyncio.timeout(30):
            assert await running.outcomes == answered


async def check_what_a_host_reaches(running: Deployment) -> None:
    """Not the other group's directory, and no file or socket of the sidecar; not even its own agents socket's name."""
    folder = running.folder
    of_the_sidecar = [
        ("list", f"{folder}/rewards"),
        ("connect", f"{folder}/rewards/sidecar.sock"),
        ("connect", f"{folder}/rewards/hosts/host.sock"),
        ("connect", f"{folder}/dispatch/sidecar.sock"),
        ("connect", f"{folder}/agents/sidecar.sock"),
        ("connect", f"{folder}/operators/sidecar.sock"),
        ("read", f"{folder}/dispatch/boot-secret"),
        ("read", f"{folder}/record/record.sqlite"),
        ("read", f"{folder}/record/checkpoints.jsonl"),
        ("read", f"{folder}/record/checkpoint.key"),
        ("read", f"{folder}/record/kills.jsonl"),
        ("write", f"{folder}/shop/x"),
    ]
    assert await tries(SHOP, *of_the_sidecar, ("remove", f"{folder}/shop/sidecar.sock")) == [REFUSED] * 13
    assert await tries(SIDECAR, *of_the_sidecar) == [""] * 12
    assert await tries(REWARDS, *of_the_sidecar[:3]) == [""] * 3
    assert await tries(SHOP, ("connect", f"{folder}/shop/sidecar.sock"), ("write", f"{folder}/shop/hosts/x")) == [
        "",
        "",
    ]


async def check_whose_grants_count(running: Deployment) -> None:
    """A stolen grant is refused at the thief's socket, logged and counted; the thief's own one counts there."""
    mine, other = running.grants["shop"], running.grants["rewards"]
    assert running.gateways == {slot: f"unix:{running.folder}/{slot}/sidecar.sock" for slot in ("shop", "rewards")}
    used = [("use", running.gateways["shop"], grant) for grant in (mine, other)]
    elsewhere = ("use", running.gateways["rewards"], other)
    assert await tries(SHOP, *used, elsewhere) == ["", "CALLER_NOT_ALLOWED", "UNAVAILABLE"]
    seen = await running.sidecar.event("sidecar.anomaly", lambda line: line["kind"] == "grant_of_another_host")
    assert "the hosts of the group `shop` may not act for the sub-agent `rewards`" in seen["message"]
    await running.sidecar.metrics_show('sidecar_anomalies_total{kind="grant_of_another_host"} 1.0')


def check_what_the_sidecar_has_written(folder: Path) -> None:
    """Other users can do nothing with any of it, though the umask lets them; groups have their directories."""
    theirs = {"config", "sidecar.toml", "operator.key", "operator.key.pub"}
    found = [path for path in folder.rglob("*") if path.relative_to(folder).parts[0] not in theirs]
    open_to = {
        str(path.relative_to(folder)): f"{mode:04o}"
        for path in found
        if (mode := stat.S_IMODE(path.lstat().st_mode)) & 0o077 and path.name != "host.sock"
    }
    assert open_to == {
        "shop": "0750", "shop/hosts": "1770", "shop/sidecar.sock": "0660",
        "rewards": "0750", "rewards/hosts": "1770", "rewards/sidecar.sock": "0660",
        "record/checkpoints.jsonl": "0644", "record/checkpoint.key.pub": "0644",
    }  # fmt: skip
    assert stat.S_IMODE((folder / "record").stat().st_mode) == 0o700
    assert {path.lstat().st_uid for path in found if not path.name.startswith("host.sock")} == {61001}


async def check_that_the_memory_is_closed(sidecar: SidecarProcess) -> None:
    """Even to a process of the same user, which reads the memory of other processes of that user."""
    pid = sidecar.process.pid
    asked = [("read", f"/proc/{pid}/{name}") for name in ("environ", "mem", "maps")]
    assert await tries(SIDECAR, *asked) == [REFUSED] * 3
    assert (await sidecar.page("/readyz")).json()["files"]["open"] > 10


@pytest.mark.seconds(60)
async def test_a_sidecar_that_may_be_debugged_lets_its_user_read_its_memory() -> None:
    """Other processes of the same user only: the setting opens nothing to users of hosts."""
    needs_root(WHY)
    with place() as folder:
        folder.chmod(0o755)
        os.chown(folder, 61001, 61001)
        allowed = {"SIDECAR__SERVER__ALLOW_DEBUGGING": "true"}
        async with started(folder, environment=allowed, python=as_user(SIDECAR, "0022")) as sidecar:
            await sidecar.event("sidecar.readiness")
            asked = [("read", f"/proc/{sidecar.process.pid}/{name}") for name in ("environ", "mem", "maps")]
            assert await tries(SIDECAR, *asked) == [""] * 3
            assert await tries(SHOP, *asked) == [REFUSED] * 3
