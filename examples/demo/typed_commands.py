"""Types `sidecar` commands, each a process of its own, and keeps what they said."""

import asyncio
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from examples.demo.processes import ROOT


class CommandFailed(Exception):
    """A command that everything else needs has failed; says which, and what it said."""


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """The result of a command. `seconds` includes the start of its process."""

    code: int
    lines: Sequence[str]
    seconds: float


async def typed(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> CommandOutput:
    """Run `sidecar <arguments>`; output and errors are read together.

    The input is not a terminal, so nothing can be confirmed.
    """
    begun = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "sidecar",
        *arguments,
        cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return CommandOutput(
        process.returncode or 0, output.decode(errors="replace").splitlines(), time.monotonic() - begun
    )


async def answer_of(arguments: Sequence[str]) -> str:
    """Run `sidecar <arguments>` and return the line that it prints.

    Raises:
        CommandFailed: it failed, or printed something else.
    """
    said = await typed(arguments)
    if said.code or len(said.lines) != 1:
        raise CommandFailed(f"`sidecar {' '.join(arguments[:2])}` ended with {said.code}: {' '.join(said.lines)}")
    return said.lines[0]
