"""How long a server takes from the start of its process until it listens, and what CPU time that costs."""

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scripts.benchmark.load import Sample, sample_of
from scripts.benchmark.processes import REPOSITORY, START_SECONDS, ServerLost, cpu_seconds
from scripts.benchmark.serving import READY

USUAL: Final = 3
"""Starts in a round."""
SETTINGS: Final = """
[server]
dispatch_socket = "{folder}/dispatch/sidecar.sock"
agents_socket = "{folder}/agents/sidecar.sock"
boot_secret_file = "{folder}/dispatch/boot-secret"
ops_address = "127.0.0.1:0"

[record.sqlite]
path = "{folder}/record/record.sqlite"

[definitions]
path = "{definitions}"
git_commits = false

[dispatch]
fan_out_cap = 3
"""
"""As many defaults as there can be: the record in SQLite, no operators, no plugins, no telemetry."""


class Starts:
    """Starts one server again and again.

    Args:
        command: of the process.
        said: what stands in the line on standard error that tells that it listens.
    """

    def __init__(self, command: Sequence[str], said: str) -> None:
        self._command = command
        self._said = said.encode()

    async def measure(self, count: int) -> Sample:
        """Start it so often, one after the other. Raises `ServerLost` if it does not come up."""
        taken, cpu = [], 0.0
        for _ in range(count):
            seconds, used = await self._once()
            taken.append(seconds)
            cpu += used
        return sample_of(taken, count / sum(taken), cpu / count)

    async def _once(self) -> tuple[float, float]:
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec(*self._command, cwd=REPOSITORY, stderr=asyncio.subprocess.PIPE)
        assert process.stderr is not None  # noqa: S101  for the type checker: it was asked for
        try:
            async with asyncio.timeout(START_SECONDS):
                async for line in process.stderr:
                    if self._said in line:
                        return time.perf_counter() - began, cpu_seconds(process.pid)
            raise ServerLost(f"{' '.join(self._command)} ended before it listened")
        except TimeoutError:
            raise ServerLost(f"{' '.join(self._command)} does not listen") from None
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


def starts(folder: Path, definitions: Path, cpu: int | None) -> tuple[Starts, Starts]:
    """Return what starts a bare server, and what starts a sidecar.

    Args:
        folder: of both, with a name short enough for sockets.
        definitions: of the sidecar.
        cpu: the core that both stay on; None: any.
    """
    on_core = () if cpu is None else ("taskset", "--cpu-list", str(cpu))
    settings = folder / "sidecar.toml"
    settings.write_text(SETTINGS.format(folder=folder, definitions=definitions), encoding="utf-8")
    python = (*on_core, sys.executable, "-m")
    return (
        Starts([*python, "scripts.benchmark.bare_start", str(folder / "bare.sock")], READY),
        Starts([*python, "sidecar", "serve", "--config", str(settings)], "sidecar.listening"),
    )
