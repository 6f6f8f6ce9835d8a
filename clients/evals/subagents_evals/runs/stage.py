"""Starts a real sidecar as a process, and a runner host whose sub-agents answer by script."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from subagents_client import SidecarClient
from subagents_client.runner import Answer, HostLimits, Run, RunnerHost
from subagents_evals.inputs.cases import Fault, Suite
from subagents_evals.inputs.configuration import Configuration, served_copy

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 10.0
TAIL_LINES: Final = 30
OFFERED_AT_MOST: Final = 100
"""Maximum number of sub-agents that a sidecar can offer."""
READY: Final = '"sidecar.readiness"'


class StageFailed(RuntimeError):
    """The sidecar did not start, or ended; the message has the last lines of its log."""


class ScriptedFault(Exception):
    """The script makes a sub-agent fail."""


@dataclass(frozen=True, slots=True)
class Received:
    """The request that a sub-agent received from the orchestrator's model."""

    slot: str
    request: str
    prior_context: str


@dataclass(slots=True)
class Script:
    """The script of the sub-agents of one conversation, and the requests that they received.

    Attributes:
        answers: slot to its answer; other slots give the answer of the suite.
        faults: by slot.
        received: one for each attempt, in the order in which they began.
    """

    answers: Mapping[str, str] = field(default_factory=dict)
    faults: Mapping[str, Fault] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)


class Scripts:
    """The scripts of all running conversations; sub-agents find theirs by episode id."""

    def __init__(self, suite: Suite) -> None:
        self._suite = suite
        self._by_episode: dict[str, Script] = {}

    @contextlib.contextmanager
    def of(self, episode_id: str) -> Iterator[Script]:
        """Yield the script of one conversation, which exists until the conversation ends."""
        script = self._by_episode[episode_id] = Script()
        try:
            yield script
        finally:
            del self._by_episode[episode_id]

    async def answer(self, run: Run) -> Answer:
        """Run one attempt of any sub-agent, by the script of its episode."""
        script = self._by_episode[run.context.episode_id]
        script.received.append(Received(run.sub_agent_id, run.request, run.context.prior_context))
        usual = self._suite.sub_agents[run.sub_agent_id]
        if usual.status:
            await run.status(usual.status)
        fault = script.faults.get(run.sub_agent_id)
        if fault is Fault.ERROR:
            raise ScriptedFault(run.sub_agent_id)
        text = script.answers.get(run.sub_agent_id, usual.answer)
        return Answer(text, data_unavailable=fault is Fault.NO_DATA)


@dataclass(frozen=True, slots=True)
class EvaluationEnvironment:
    """A running sidecar with its scripted sub-agents."""

    client: SidecarClient
    scripts: Scripts


@contextlib.asynccontextmanager
async def started_environment(configuration: Configuration, suite: Suite) -> AsyncIterator[EvaluationEnvironment]:
    """Start a sidecar that serves a configuration; everything is stopped and removed at the end.

    Raises:
        StageFailed: the sidecar did not become ready.
    """
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="eval-")))
        await asyncio.to_thread(served_copy, configuration, folder / "config")
        (folder / "sidecar.toml").write_text(settings_of(folder, configuration.slots, suite), "utf-8")
        scripts = Scripts(suite)
        host = RunnerHost(software="subagents-evals", limits=HostLimits(most_runs=256))
        host.any_sub_agent(needs_card=False)(scripts.answer)
        await stack.enter_async_context(host.serving(f"unix:{folder}/agents.sock"))
        await stack.enter_async_context(_sidecar(folder))
        target = f"unix:{folder}/dispatch/sidecar.sock"
        connected = SidecarClient.connect(target, boot_secret_file=folder / "dispatch" / "boot-secret")
        yield EvaluationEnvironment(await stack.enter_async_context(connected), scripts)


def settings_of(folder: Path, slots: Sequence[str], suite: Suite) -> str:
    """Return the content of the sidecar's settings file; all sockets are in `folder`, and all slots are offered."""
    lines = [
        "[server]",
        f'dispatch_socket = "{folder}/dispatch/sidecar.sock"',
        f'agents_socket = "{folder}/agents/sidecar.sock"',
        f'boot_secret_file = "{folder}/dispatch/boot-secret"',
        'ops_address = "127.0.0.1:0"',
        'lame_duck = "0s"',
        "[record]",
        'database = "memory"',
        "[definitions]",
        f'path = "{folder}/config"',
        "git_commits = false",
        f"max_sub_agents = {min(max(len(slots), 1), OFFERED_AT_MOST)}",
        "[dispatch]",
        f"fan_out_cap = {suite.fan_out_cap}",
        "[history]",
        f"compact_above_turns = {suite.compact_above_turns}",
        "[rollout]",
        f'tombstone_file = "{folder}/kills.jsonl"',
        "auto_promote_unflagged = true",
        "[log]",
        'format = "json"',
        "[targets.slots]",
        *(f'{json.dumps(slot)} = "unix:{folder}/agents.sock"' for slot in slots),
    ]
    for kind in sorted({one.status for one in suite.sub_agents.values() if one.status}):
        lines += [f"[status.events.{json.dumps(kind)}]", 'policy = "forward"']
    return "\n".join(lines) + "\n"


@contextlib.asynccontextmanager
async def _sidecar(folder: Path) -> AsyncIterator[None]:
    command = (sys.executable, "-m", "sidecar", "serve", "--config", str(folder / "sidecar.toml"))
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("SIDECAR__")}
    process = await asyncio.create_subprocess_exec(
        *command,
        env=surroundings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    ready = asyncio.Event()
    async with _watched(process.pid, folder):
        reading = asyncio.ensure_future(_read(process, tail, ready))
        waiting = asyncio.ensure_future(ready.wait())
        try:
            await asyncio.wait({reading, waiting}, timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not ready.is_set():
                raise StageFailed("the sidecar did not become ready; its log ends with\n" + "".join(tail))
            yield
        finally:
            waiting.cancel()
            await _stopped(process)
            await reading


async def _read(process: asyncio.subprocess.Process, tail: deque[str], ready: asyncio.Event) -> None:
    if process.stderr is not None:
        async for raw in process.stderr:
            line = raw.decode("utf-8", "replace")
            tail.append(line)
            if READY in line:
                ready.set()


async def _stopped(process: asyncio.subprocess.Process) -> None:
    """Send SIGTERM, then SIGKILL if the process does not end."""
    for which in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(which)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
                return


@contextlib.asynccontextmanager
async def _watched(pid: int, folder: Path) -> AsyncIterator[None]:
    """Start a watchdog, which stops the process and removes the folder if this process is killed."""
    command = (sys.executable, "-m", "subagents_evals.runs.watchdog")
    watchdog = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, start_new_session=True)
    if watchdog.stdin is None:
        raise StageFailed("the watchdog has no standard input")
    watchdog.stdin.write(f"pid {pid}\nfolder {folder}\n".encode())
    try:
        yield
    finally:
        watchdog.stdin.write(b"done\n")
        watchdog.stdin.close()
        await watchdog.wait()
