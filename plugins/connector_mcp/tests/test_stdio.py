"""Servers over stdio: started when they are needed, restarted with a pause, ended with all that they started."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from plugins.connector_mcp.tests import lying_server
from plugins.connector_mcp.tests.asking import a_call, answered, asked, refused
from sidecar.core.identifiers import Principal
from sidecar.policy.protocols import EnricherRefused, RefusalKind
from sidecar_conformance.suite import beats
from sidecar_connector_mcp.connector import McpConnector
from sidecar_connector_mcp.definitions import digest_of
from sidecar_connector_mcp.plugin import mcp_connector

PINS: Final = {each["name"]: digest_of(each) for each in lying_server.TOOLS}


def of(tool: str) -> str:
    """Return the endpoint of a tool of the lying server."""
    return f"mcp:lying/{tool}#{PINS[tool]}"


@asynccontextmanager
async def lying(starts: Path, **settings: Any) -> AsyncIterator[McpConnector]:
    """Have a connector of the lying server, which writes a line into `starts` at each start."""
    command = [sys.executable, "-I", lying_server.__file__, str(starts)]
    connector = mcp_connector({"servers": {"lying": {"command": command}}, "restart_seconds": 0, **settings})
    try:
        yield connector
    finally:
        await connector.close()


def started(starts: Path) -> list[int]:
    """Return the process ids of all starts."""
    return [int(line) for line in starts.read_text().split()]


def runs(pid: int) -> bool:
    """Say whether there is such a process."""
    return Path(f"/proc/{pid}").exists()


def environment_of(pid: int) -> bytes:
    """Return the variables that a process was started with."""
    return Path(f"/proc/{pid}/environ").read_bytes()


async def test_one_process_serves_all_users_and_is_gone_at_the_end(tmp_path: Path) -> None:
    """A process for each user would not scale; whom a call is for stands in `_meta`."""
    starts = tmp_path / "starts"
    async with lying(starts) as connector:
        pids = {await answered(connector, endpoint=of("answer"), principal=Principal(user)) for user in ("ada", "bob")}

    (pid,) = started(starts)
    assert pids == {str(pid).encode()}
    assert not runs(pid)


async def test_a_server_that_ends_is_started_again_for_the_next_call(tmp_path: Path) -> None:
    """The call in which it ended is not repeated: what it had done is not known."""
    starts = tmp_path / "starts"
    async with lying(starts) as connector:
        kind, _ = await refused(connector, endpoint=of("die"))
        await answered(connector, endpoint=of("answer"))

    assert kind is RefusalKind.UNAVAILABLE
    assert len(started(starts)) == 2


async def test_a_server_that_keeps_ending_is_not_started_at_each_call(tmp_path: Path) -> None:
    """It would take the machine from everyone else."""
    starts = tmp_path / "starts"
    async with lying(starts, restart_seconds=600) as connector:
        await refused(connector, endpoint=of("die"))
        _, fault = await refused(connector, endpoint=of("answer"))

    assert (fault.target, fault.errno) == ("mcp:lying", "server ended")
    assert len(started(starts)) == 1


async def test_a_line_without_end_costs_the_server_its_process(tmp_path: Path) -> None:
    """Nothing is kept of it beyond the limit."""
    starts = tmp_path / "starts"
    async with lying(starts, max_body_bytes=1024) as connector:
        kind, _ = await refused(connector, endpoint=of("endless"))
        await answered(connector, endpoint=of("answer"))

    assert kind is RefusalKind.TOO_LARGE
    assert len(started(starts)) == 2


async def test_a_server_that_is_silent_for_a_whole_call_gets_a_new_process(tmp_path: Path) -> None:
    """Otherwise every later call would wait for its timeout too."""
    starts = tmp_path / "starts"
    async with lying(starts) as connector:
        await answered(connector, endpoint=of("answer"))  # has started: a start may take longer than the call below
        reply = await asked(connector, endpoint=of("silent"), timeout=timedelta(seconds=1.5))
        await answered(connector, endpoint=of("answer"))

    assert reply == EnricherRefused(RefusalKind.TIMEOUT)
    assert len(started(starts)) == 2


async def test_a_cancelled_call_ends_at_once_although_the_server_reads_nothing(tmp_path: Path) -> None:
    """Telling it that the call was cancelled may wait; the child that asked does not."""
    starts = tmp_path / "starts"
    async with lying(starts) as connector:
        await answered(connector, endpoint=of("answer"))
        stuffed = f'{{"text": "{"x" * 500_000}"}}'
        calls = [asyncio.ensure_future(connector.enrich(a_call(endpoint=of("silent"), arguments_json=stuffed)))]
        calls += [asyncio.ensure_future(connector.enrich(a_call(endpoint=of("answer"), arguments_json=stuffed)))]
        calls += [asyncio.ensure_future(connector.enrich(a_call(endpoint=of("answer"))))]
        await beats()
        for call in calls:
            call.cancel()
        done, _ = await asyncio.wait(calls, timeout=3)

    assert len(done) == 3
    assert not runs(started(starts)[0])


async def test_what_is_no_result_of_the_protocol_is_malformed(tmp_path: Path) -> None:
    """And an answer to a question that was not asked reaches nobody."""
    async with lying(tmp_path / "starts") as connector:
        kind, _ = await refused(connector, endpoint=of("nonsense"))
        own = await answered(connector, endpoint=of("babble"))

    assert kind is RefusalKind.MALFORMED
    assert own != b"for nobody"


async def test_a_program_that_is_not_there_is_told() -> None:
    """With the errno, and where it is configured."""
    connector = mcp_connector({"servers": {"lying": {"command": ["/nowhere/server"]}}})
    _, fault = await refused(connector, endpoint=of("answer"))
    await connector.close()

    assert fault.errno == "ENOENT"
    assert "[connectors.mcp.servers]" in fault.remedy


async def test_a_server_gets_none_of_the_sidecars_variables_but_a_few(tmp_path: Path) -> None:
    """Secrets may stand in them."""
    os.environ["SIDECAR_TESTS_SECRET"] = "s3cret"
    try:
        async with lying(tmp_path / "starts") as connector:
            pid = int(await answered(connector, endpoint=of("answer")))
            environment = environment_of(pid)
    finally:
        del os.environ["SIDECAR_TESTS_SECRET"]

    assert b"PATH=" in environment
    assert b"s3cret" not in environment
