"""Commands that documentation has a newcomer type, typed into one shell."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path


def free_port() -> str:
    """Return a port that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def typed_in(folder: Path, script: str, seconds: float, **environment: str) -> tuple[int, str]:
    """Run a script in a folder; return its exit code and what was printed. Nothing that it started is left.

    Raises:
        subprocess.TimeoutExpired: it took longer than `seconds`.
    """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path, "SIDECAR__SERVER__OPS_ADDRESS": f"127.0.0.1:{free_port()}", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        out, _ = process.communicate(timeout=seconds)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # whatever it left
    return process.returncode, out
