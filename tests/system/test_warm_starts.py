"""Processes that tests start as copies of a warm one: they find, do and leave what started ones do."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.fork_server.asking import ROOT, Asked, asked_by
from tests.support.fork_server.popen import AlwaysPopen, WarmPopen
from tests.support.fork_server.refusals import refusal
from tests.support.fork_server.shown import Room

pytestmark = pytest.mark.system

PROBE: Final = (sys.executable, "-m", "tests.support.fork_server.probe")
BOTH: Final = pytest.mark.parametrize("start", [AlwaysPopen, WarmPopen])
SECONDS: Final = 180.0
ROOM: Final = Room(0, 4096, 0, 4096)
PIPES: Final = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


def said_by(start: Any, *arguments: str, typed: str = "", **options: Any) -> tuple[int, str, str]:
    """Run a probe; return its exit code, its output and its errors."""
    with start([*PROBE, *arguments], **{"cwd": ROOT, **PIPES, **options}) as process:
        out, errors = process.communicate(typed, SECONDS)
    return process.returncode, out, errors


@pytest.fixture
def two_files(tmp_path: Path) -> Iterator[list[int]]:
    """The numbers of two open files."""
    with (tmp_path / "one").open("w+") as one, (tmp_path / "two").open("w+") as two:
        for file in (one, two):
            file.write(file.name)
            file.flush()
        yield [one.fileno(), two.fileno()]


@pytest.mark.parametrize(
    "options", [{}, {"start_new_session": True}, {"process_group": 0}, {"cwd": "elsewhere"}, {"pass_fds": "two files"}]
)
def test_a_copy_finds_what_a_started_process_finds(
    options: dict[str, Any], tmp_path: Path, two_files: list[int]
) -> None:
    """Arguments, variables, module path, streams, descriptors, signals, and what `/proc` shows of it."""
    (tmp_path / "elsewhere").mkdir()
    variables = {"SIDECAR_PROBE": "é" * 30, "PYTHONPATH": f"{ROOT}:{tmp_path}", "PYTHONUNBUFFERED": "1"}
    asked = {"typed": "two\nlines", "env": {**os.environ, **variables}, **options}
    if "cwd" in options:
        asked["cwd"] = tmp_path / "elsewhere"
    passed = two_files if "pass_fds" in options else []
    if passed:
        asked["pass_fds"] = passed

    (code, started, errors), (copied_code, copied, copied_errors) = (
        said_by(start, "find", "a b", *map(str, passed), **asked) for start in (AlwaysPopen, WarmPopen)
    )

    assert (code, errors, copied_code, copied_errors) == (0, "", 0, "")
    assert json.loads(copied) == json.loads(started) | {"copy": True}
    assert json.loads(started)["passed"] == [str(tmp_path / name) for name in ("one", "two")[: len(passed)]]
    assert not json.loads(started)["copy"]


@BOTH
def test_it_ends_as_it_says(start: Any) -> None:
    """With a code, with a text, by an error, by an interrupt; its threads and its last words come first."""
    assert said_by(start, "exit", "3") == (3, "a thread is waited for\nthe last words\n", "")
    assert said_by(start, "exit", "a text") == (1, "a thread is waited for\nthe last words\n", "a text\n")
    code, _, errors = said_by(start, "raise")
    assert (code, errors.splitlines()[-1]) == (1, "LookupError: as asked")
    code, _, errors = said_by(start, "interrupt")
    assert (code, errors.splitlines()[-1]) == (-signal.SIGINT, "KeyboardInterrupt")


@BOTH
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it(start: Any, number: signal.Signals) -> None:
    """At once, and its status says which."""
    with start([*PROBE, "wait"], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.poll() is None
        assert process.stdout.readline() == "waits\n"
        process.send_signal(number)
        assert process.wait(SECONDS) == -number
        assert process.stdout.read() == ""


def test_a_server_ends_with_whoever_asked_it() -> None:
    """Killed in the middle of a command, a worker of pytest leaves no server."""
    worker = (
        "import json, subprocess, sys\n"
        "from tests.support.fork_server import popen\n"
        "server = popen.WarmServer()\n"
        "popen.install(server)\n"
        f"copy = subprocess.Popen([*{PROBE!r}, 'wait'], stdin=subprocess.DEVNULL)\n"
        "print(json.dumps([server.pid, copy.pid]), flush=True)\n"
        "copy.wait()\n"
    )
    with AlwaysPopen([sys.executable, "-c", worker], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = sorted((process.stdout.readline(), process.stdout.readline()))
        assert lines[1] == "waits\n"
        server, copy = (os.pidfd_open(pid) for pid in json.loads(lines[0]))
        process.kill()
        assert select.select([server], [], [], SECONDS)[0]
        signal.pidfd_send_signal(copy, signal.SIGKILL)


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("python -m sidecar", {"shell": True}),
        (["bash", "-c", "true"], {}),
        ([sys.executable, "-c", "pass"], {}),
        ([sys.executable, "-S", "-m", "sidecar"], {}),
        ([sys.executable, "-m", "pip"], {}),
        ([sys.executable, "-m", "sidecars"], {}),
        ([sys.executable, "-m", "sidecar"], {"pass_fds": range(3, 12)}),
        ([sys.executable, "-m", "sidecar", "eval"], {"pass_fds": [3]}),
        ([sys.executable, "-m", "sidecar"], {"preexec_fn": os.setsid}),
        ([sys.executable, "-m", "sidecar"], {"cwd": "/is/not/there"}),
    ],
)
def test_other_programs_and_options_are_started(command: Any, options: dict[str, Any]) -> None:
    """No copy could be that."""
    assert asked_by(command, options) is None


@pytest.mark.parametrize("name", ["LD_PRELOAD", "PYTHONHASHSEED", "TZ", "OTEL_SDK_DISABLED", "UNKNOWN_ANYWHERE"])
def test_a_variable_that_may_act_at_the_start_is_refused(name: str) -> None:
    """Whether it is there, is missing or has another value; one that is read later is not."""
    without, there = Asked((), "sidecar", (), {}, str(ROOT)), Asked((), "sidecar", (), {name: "1"}, str(ROOT))
    assert refusal(there, {}, (), ROOM) == f"the variable {name} may act at the start"
    assert refusal(without, {name: "1"}, (), ROOM)
    assert refusal(there, {name: "2"}, (), ROOM)
    assert refusal(there, {name: "1", "SIDECAR__SERVER__LAME_DUCK": "1s"}, (), ROOM) == ""


def test_a_folder_with_other_code_is_refused(tmp_path: Path) -> None:
    """Of the same name as a loaded module, where the process runs or on its path; a settings file is no code."""
    (tmp_path / "sidecar.toml").touch()
    assert refusal(Asked((), "sidecar", (), {}, str(tmp_path)), {}, {"sidecar.cli"}, ROOM) == ""
    (tmp_path / "sidecar").mkdir()
    runs_there = Asked((), "sidecar", (), {}, str(tmp_path))
    path_there = Asked((), "sidecar", (), {"PYTHONPATH": f"{ROOT}:{tmp_path}"}, str(ROOT))
    assert refusal(runs_there, {}, {"sidecar.cli"}, ROOM) == f"{tmp_path} has another sidecar"
    assert refusal(path_there, {}, {"sidecar.cli"}, ROOM) == f"{tmp_path} has another sidecar"
    assert refusal(path_there, {}, {"examples"}, ROOM) == ""
    assert refusal(runs_there, {"PYTHONPATH": "/x"}, (), ROOM) == "its module path lacks folders of the server's"


def test_more_than_there_is_room_for_is_refused() -> None:
    """Else `/proc` would show half of it."""
    assert refusal(Asked(("a" * 5000,), "sidecar", (), {}, str(ROOT)), {}, (), ROOM) == "it is too long"
