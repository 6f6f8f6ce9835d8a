"""`sidecar dev`: real processes of a written repository, seen from outside, without a terminal."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import pytest

from sidecar.cli.init.repository import write_repository
from tests.support.typed_commands import free_port

pytestmark = [pytest.mark.system, pytest.mark.seconds(120)]


class Dev:
    """A running `sidecar dev`."""

    def __init__(self, folder: Path, port: str, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        self.folder, self.port, self.process = folder, int(port), process
        self._out: IO[str] = process.stdout
        self.said = ""

    def until(self, text: str) -> None:
        """Read until a line contains a text."""
        for line in self._out:
            self.said += line
            if text in line:
                return
        pytest.fail(f"{text!r} did not come:\n{self.said}")

    def rest(self) -> str:
        """Return what is printed until nothing that was started holds the output any more."""
        return self._out.read()

    def edit(self, file: str, old: str, new: str) -> None:
        """Replace a text that a file has once."""
        path = self.folder / file
        text = path.read_text("utf-8")
        assert text.count(old) == 1
        path.write_text(text.replace(old, new), "utf-8")

    def serving(self) -> list[str]:
        """Return which of the servers take a connection."""
        places = {"data_service": ("127.0.0.1", self.port)}
        unix = {name: str(self.folder / ".run" / f"{name}.sock") for name in ("travel", "dispatch/sidecar")}
        found = [name for name, address in places.items() if _connects(socket.AF_INET, address)]
        return found + [name for name, path in unix.items() if _connects(socket.AF_UNIX, path)]


def _connects(family: socket.AddressFamily, address: tuple[str, int] | str) -> bool:
    with socket.socket(family) as probe:
        return probe.connect_ex(address) == 0


@contextmanager
def started(*arguments: str) -> Iterator[Dev]:
    """Run `sidecar dev` in a new repository; kill what is left of it."""
    with TemporaryDirectory(prefix="dev-") as parent:
        folder = write_repository("travel", Path(parent))
        port = free_port()
        for file in ("data_service.py", "config/agent_config.yaml"):
            text = (folder / file).read_text("utf-8")
            (folder / file).write_text(text.replace("8480", port), "utf-8")
        process = subprocess.Popen(
            [sys.executable, "-m", "sidecar", "dev", "--dir", str(folder), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "SIDECAR__SERVER__OPS_ADDRESS": f"127.0.0.1:{free_port()}"},
        )
        with process:
            try:
                yield Dev(folder, port, process)
            finally:
                process.kill()


def test_it_runs_all_reloads_what_changes_and_ends_with_one_signal() -> None:
    """The turn's timeline is printed; a broken host is named with file and line, and comes back when it is repaired."""
    with started("--consumer", "ask.py") as dev:
        dev.until("dev | the sidecar answers")
        dev.until("ask | ask_travel is not offered to user-1")
        dev.until("episode episode-user-1  principal user-1")
        assert dev.serving() == ["data_service", "travel", "dispatch/sidecar"]

        dev.edit("travel_agent.py", "import asyncio\n", "import asyncio\nx = = 1\n")
        dev.until("travel_agent | SyntaxError: invalid syntax (travel_agent.py, line 4)")
        dev.until("travel_agent | ended with exit code 1; it restarts when its files change; complete output: .run/dev")
        dev.edit("travel_agent.py", "x = = 1\n", "")
        dev.until("dev | changed: travel_agent.py; restarting: travel_agent")
        dev.edit("config/prompts/components/travel/persona-travel.yaml", "the travel", "our travel")
        dev.until("sidecar | new definitions are in use")
        dev.edit("sidecar.toml", "fan_out_cap = 3", "fan_out_cap = 2")
        dev.until("dev | changed: sidecar.toml; restarting: sidecar")
        dev.until("dev | the sidecar answers")

        dev.process.send_signal(signal.SIGINT)
        assert "Traceback" not in dev.said + dev.rest()
        assert dev.process.wait() == 0
        assert dev.serving() == []


def test_nothing_outlives_it_when_it_is_killed() -> None:
    """Not even after SIGKILL: another process ends them when its pipe ends."""
    with started() as dev:
        dev.until("dev | the sidecar answers")
        assert dev.serving() == ["data_service", "travel", "dispatch/sidecar"]

        dev.process.kill()
        dev.rest()

        assert dev.serving() == []


@pytest.mark.parametrize(("arguments", "missing"), [((), "sidecar.toml"), (("--consumer", "x.py"), "sidecar.toml")])
def test_another_folder_is_refused(arguments: tuple[str, ...], missing: str, tmp_path: Path) -> None:
    """With the file that is missing, and nothing is started or written."""
    command = [sys.executable, "-m", "sidecar", "dev", "--dir", str(tmp_path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    said = f"{tmp_path}/{missing} does not exist; give a folder that `sidecar init` wrote, with --dir\n"
    assert (done.returncode, done.stderr) == (64, said)
    assert list(tmp_path.iterdir()) == []
