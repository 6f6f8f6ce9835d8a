"""What is told of a host that cannot be reached: where it was looked for, why that failed, what to do."""

import socket
from pathlib import Path

import grpc
import pytest

from sidecar.adapters.runner_grpc.runner import GrpcRunner
from sidecar.policy.faults import grpc_fault
from tests.adapters.runner_grpc.wild_host import a_run, events_and_error, hosting, refusing


def free_port() -> int:
    """Return a port at which nothing listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def left_over(path: Path) -> Path:
    """Return the socket file of a process that is gone."""
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))
    return path


@pytest.mark.parametrize("kind", ["missing", "left over", "port"])
async def test_a_host_that_is_away_is_named_with_address_errno_and_remedy(kind: str, tmp_path: Path) -> None:
    """No socket file, the file of a dead process, a port where nothing listens."""
    port = free_port()
    target, address, errno = {
        "missing": (f"unix:{tmp_path}/no.sock", f"unix:{tmp_path}/no.sock", "ENOENT"),
        "left over": (f"unix:{left_over(tmp_path / 'old.sock')}", f"unix:{tmp_path}/old.sock", "ECONNREFUSED"),
        "port": (f"localhost:{port}", f"ipv4:127.0.0.1:{port}", "ECONNREFUSED"),
    }[kind]
    runner = GrpcRunner(target, "unix:/gateway.sock")
    try:
        _, error = await events_and_error(runner, a_run())
    finally:
        await runner.close()

    assert error is not None
    assert error.unreachable
    assert error.fault is not None
    assert (error.fault.target, error.fault.address, error.fault.errno) == (target, address, errno)
    assert "start the process" in error.fault.remedy
    assert "[targets]" in error.fault.remedy


def test_a_socket_that_may_not_be_opened_is_a_matter_of_rights() -> None:
    """The remedy speaks of owner and mode, not of starting the host; what a stranger writes is cut."""
    text = (
        "last error: UNKNOWN: unix:/run/shut.sock: connect failed: addr: unix:/run/shut.sock error: Permission denied"
    )
    fault = grpc_fault("unix:/run/shut.sock", "UNAVAILABLE", text, "its address")

    assert fault.errno == "EACCES"
    assert "owner and mode" in fault.remedy
    assert len(grpc_fault("t", "UNAVAILABLE", f"last error: X: {'a' * 9000}: b", "it").address) < 300


async def test_a_connection_that_breaks_after_the_first_words_is_a_fault_of_the_way(tmp_path: Path) -> None:
    """Lost, not unreachable; a host that gives a reason of its own has lost nothing."""
    async with hosting(refusing(grpc.StatusCode.UNAVAILABLE, "reset", first="so far"), tmp_path) as (host, runner):
        _, lost = await events_and_error(runner, a_run())
    assert lost is not None
    assert (lost.connection_lost, lost.unreachable) == (True, False)
    assert lost.fault is not None
    assert lost.fault.target == host.target

    refused = refusing(grpc.StatusCode.UNAVAILABLE, "try again", "RUNNER_FAILED", first="so far")
    other = tmp_path / "other"
    other.mkdir()
    async with hosting(refused, other) as (_, runner):
        _, own = await events_and_error(runner, a_run())
    assert own is not None
    assert (own.connection_lost, own.unreachable, own.fault) == (False, False, None)


async def test_a_host_that_says_nothing_until_the_deadline_is_a_fault_of_the_way(tmp_path: Path) -> None:
    """The deadline of gRPC itself, before the first message."""
    async with hosting(refusing(grpc.StatusCode.DEADLINE_EXCEEDED), tmp_path) as (_, runner):
        _, error = await events_and_error(runner, a_run())

    assert error is not None
    assert error.connection_lost
    assert error.fault is not None
    assert error.fault.errno == "gRPC DEADLINE_EXCEEDED"


async def test_what_a_host_says_of_a_failed_sub_agent_reaches_the_timeline(tmp_path: Path) -> None:
    """Its own words beside its reason."""
    serve = refusing(grpc.StatusCode.INTERNAL, "shop (agents.py:12) returned None", "RUNNER_FAILED")
    async with hosting(serve, tmp_path) as (_, runner):
        _, error = await events_and_error(runner, a_run())

    assert error is not None
    assert error.detail.endswith("INTERNAL RUNNER_FAILED: shop (agents.py:12) returned None")
