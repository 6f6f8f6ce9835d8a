"""Groups of runner hosts: a directory and an agents socket for each, and grants that count at this socket only."""

import grp
import os
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import grpc
import pytest

from sidecar.composition.host_groups import agents_plans, group_id
from sidecar.rpc.authorisation import GRANT_KEY, CallAdmission, CallerKind
from sidecar.rpc.listeners import ListenerPlan, listening
from sidecar.rpc.socket_files import CannotListen, exclusive_socket
from sidecar.rpc.tool_gateway_servicer import SERVICE, ToolGatewayServicer
from sidecar.settings import LimitsSettings, ServerSettings, SettingsProblem
from sidecar.settings.server import HostGroupSettings
from subagents.tools.v1 import tools_pb2
from tests.rpc.raw_calls import raw, raw_failure
from tests.support.fake_runner import hangs
from tests.support.harness import SidecarForTests, running_sidecar_for_tests

READ_OWN_TURNS = f"/{SERVICE}/ReadOwnTurns"
OWN_GROUP = os.getegid()
SLOTS = ("shop", "rewards", "support")


def groups_in(folder: Path) -> ServerSettings:
    """Return two groups: one of a slot, one of a vertical; `support` belongs to none."""
    return ServerSettings(
        agents_socket=folder / "common" / "sidecar.sock",
        host_groups={
            "a": {"directory": str(folder / "a"), "group": OWN_GROUP, "slots": ["shop"]},
            "b": {"directory": str(folder / "b"), "group": OWN_GROUP, "verticals": ["rewards"]},
        },
    )


@asynccontextmanager
async def sockets_of_groups(sidecar: SidecarForTests) -> AsyncIterator[Mapping[str, grpc.aio.Channel]]:
    """Serve the tool gateway of a sidecar to its groups; give a connection to each socket, by the slot of its hosts."""
    server, ops = groups_in(sidecar.folder), sidecar.operations
    told = sidecar.recorder.anomaly
    gateway = ToolGatewayServicer(ops.call_tool, ops.history.read_own_turns, ops.delegate, ops.grants, told)
    admission = CallAdmission(CallerKind.RUNNER_HOST)
    common = ListenerPlan(server.agents_socket, admission, (SERVICE,), gateway.methods(), 100, reflection=False)
    async with AsyncExitStack() as opened:
        channels = {}
        for slot, plan in zip(("support", "shop", "rewards"), agents_plans(server, common), strict=True):
            await opened.enter_async_context(listening(plan, sidecar.around, LimitsSettings()))
            channels[slot] = await opened.enter_async_context(grpc.aio.insecure_channel(f"unix:{plan.socket}"))
        yield channels


async def test_a_grant_counts_at_the_socket_of_its_group_and_at_no_other() -> None:
    """Three running attempts, three sockets: each grant reads its own turns at one of them; the others refuse it."""
    body = tools_pb2.ReadOwnTurnsRequest().SerializeToString()
    async with running_sidecar_for_tests() as sidecar, sockets_of_groups(sidecar) as channels:
        for slot in SLOTS:
            sidecar.runner.use(slot, hangs())
        request = sidecar.dispatch_request(await sidecar.bind(), *(f"ask_{slot}" for slot in SLOTS))
        stream = sidecar.stub.Dispatch(request, metadata=sidecar.metadata)
        for slot in SLOTS:
            await sidecar.runner.until_started(slot)
            metadata = [(GRANT_KEY, sidecar.runner.request_of(slot).grant)]
            assert [each async for each in raw(channels[slot], READ_OWN_TURNS, body, metadata)] == [b""]
            for other in set(SLOTS) - {slot}:
                refused = await raw_failure(channels[other], READ_OWN_TURNS, body, metadata)
                assert refused.reason == "CALLER_NOT_ALLOWED", (slot, other)
        stream.cancel()
    assert [kind for kind, _ in sidecar.recorder.of("anomaly")] == ["grant_of_another_host"] * 6
    assert sum(reason == "CALLER_NOT_ALLOWED" for *_, reason, _ in sidecar.ended) == 6


async def test_the_directory_of_a_group_admits_its_members_and_they_can_change_only_the_folder_of_hosts(
    tmp_path: Path,
) -> None:
    """Members enter the directory and write into `hosts`, where none removes the socket of another user."""
    with exclusive_socket(tmp_path / "a" / "sidecar.sock", OWN_GROUP):
        modes = {
            name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/hosts", "a/sidecar.sock.lock")
        }
    assert modes == {"a": 0o750, "a/hosts": 0o1770, "a/sidecar.sock.lock": 0o600}
    assert (tmp_path / "a" / "hosts").stat().st_gid == OWN_GROUP


async def test_the_socket_of_a_group_is_open_to_its_members_and_that_of_the_others_is_not() -> None:
    """Whatever the umask is; a directory with mode 0700 protects the common socket."""
    before = os.umask(0)
    try:
        async with running_sidecar_for_tests() as sidecar, sockets_of_groups(sidecar):
            modes = [
                stat.S_IMODE((sidecar.folder / name / "sidecar.sock").stat().st_mode) for name in ("a", "b", "common")
            ]
    finally:
        os.umask(before)
    assert modes == [0o660, 0o660, 0o600]


@pytest.mark.parametrize(
    ("folder", "mode", "problem"),
    [
        ("a", 0o751, r"lets others in \(mode 0751\): chmod 0750"),
        ("a", 0o770, r"lets others in \(mode 0770\): chmod 0750"),
        ("a", 0o700, r"cannot be entered by its group \(mode 0700\): chmod 0750"),
        ("a/hosts", 0o1777, r"lets others in \(mode 1777\): chmod 1770"),
    ],
)
def test_a_directory_of_a_group_with_another_mode_is_refused(
    folder: str, mode: int, problem: str, tmp_path: Path
) -> None:
    """Wider, or one that the group cannot enter; it is left as it is, and the message says what to do."""
    (tmp_path / "a" / "hosts").mkdir(parents=True)
    (tmp_path / "a").chmod(0o750)
    (tmp_path / "a" / "hosts").chmod(0o1770)
    (tmp_path / folder).chmod(mode)
    with pytest.raises(CannotListen, match=problem), exclusive_socket(tmp_path / "a" / "sidecar.sock", OWN_GROUP):
        pass
    assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == mode


def test_a_directory_of_another_group_is_refused(tmp_path: Path) -> None:
    """Its members could enter, and those of the configured group could not."""
    (tmp_path / "a").mkdir(mode=0o750)
    with (
        pytest.raises(CannotListen, match=f"belongs to the group {OWN_GROUP}, not {OWN_GROUP + 1}: chgrp"),
        exclusive_socket(tmp_path / "a" / "sidecar.sock", OWN_GROUP + 1),
    ):
        pass


def test_a_group_of_users_is_named_or_numbered() -> None:
    """A number need not be in the list of groups; a name must be."""
    settings = {"directory": "/run/a", "slots": ["shop"]}
    assert group_id("a", HostGroupSettings(group=61_234, **settings)) == 61_234
    assert group_id("a", HostGroupSettings(group=grp.getgrgid(0).gr_name, **settings)) == 0
    with pytest.raises(SettingsProblem, match="no group of users `no-such-group`: create it with `groupadd"):
        group_id("a", HostGroupSettings(group="no-such-group", **settings))
