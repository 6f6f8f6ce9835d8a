"""`sidecar init`: what it refuses, and that a refusal leaves nothing behind."""

import socket
import subprocess
import sys
from collections import UserDict
from collections.abc import ItemsView
from pathlib import Path

import pytest

from sidecar.cli.init.repository import FILES, write_repository
from sidecar.cli.scaffolding.project_files import ScaffoldError, write_project

pytestmark = pytest.mark.system


def init(*arguments: str) -> tuple[int, str, str]:
    """Run `sidecar init`; return exit code, output and errors."""
    command = [sys.executable, "-m", "sidecar", "init", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", ["", "Travel", "city_trips", "-travel", "travel-", "9lives", "../travel", "a" * 41])
def test_a_name_that_cannot_be_one_is_refused_with_the_rule(name: str, tmp_path: Path) -> None:
    """It becomes ids, a flag, a file and a socket."""
    with pytest.raises(ScaffoldError, match="take at most 40 lower-case letters, digits and single `-`"):
        write_repository(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["concierge", "platform"])
def test_a_name_that_the_configuration_uses_itself_is_refused(name: str, tmp_path: Path) -> None:
    """The orchestrator's id, and the owner of its prompt blocks."""
    with pytest.raises(ScaffoldError, match=f"'{name}' is a name that the written configuration uses itself"):
        write_repository(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_already_is_left_alone(tmp_path: Path) -> None:
    """Exit code 64, and one line that names it."""
    (tmp_path / "travel").mkdir()
    (tmp_path / "travel" / "mine.txt").write_text("mine")

    code, out, errors = init("travel", "--dir", str(tmp_path))

    assert (code, out) == (64, "")
    assert errors == f"{tmp_path}/travel exists already; choose another name, or another folder with --dir\n"
    assert [path.name for path in tmp_path.rglob("*")] == ["travel", "mine.txt"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    """No folder is made for it."""
    code, out, errors = init("travel", "--dir", str(tmp_path / "no"))

    assert (code, out) == (64, "")
    assert errors == f"{tmp_path}/no/travel cannot be written: No such file or directory\n"


class MadeMeanwhile(UserDict[str, str]):
    """Contents of a project; while they are written, another process makes a project of the same name."""

    def __init__(self, rival: Path) -> None:
        super().__init__({"a.txt": "ours"})
        self._rival = rival

    def items(self) -> ItemsView[str, str]:
        """Return the files, after the other process."""
        self._rival.mkdir()
        (self._rival / "b.txt").write_text("theirs")
        return super().items()


def test_a_project_that_is_made_meanwhile_is_left_alone(tmp_path: Path) -> None:
    """Neither is it mixed with ours, nor is anything else left in the folder."""
    with pytest.raises(ScaffoldError, match="travel exists already; choose another name"):
        write_project("travel", tmp_path, MadeMeanwhile(tmp_path / "travel"))

    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["travel", "travel/b.txt"]


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    """The last of them; the message names the project and the reason of the system."""
    with pytest.raises(ScaffoldError, match=r"travel cannot be written: (File exists|Not a directory)"):
        write_project("travel", tmp_path, {"a": "a file", "a/b.txt": "below a file"})
    assert list(tmp_path.iterdir()) == []


def test_the_written_data_service_says_that_its_port_is_taken(tmp_path: Path) -> None:
    """One line instead of a traceback, with what to change."""
    written = write_repository("travel", tmp_path)
    file = written / "data_service.py"
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        file.write_text(file.read_text("utf-8").replace("8480", str(port)), "utf-8")
        done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=300, check=False)

    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"port {port}: Address already in use; choose another one here and in `endpoint`" in done.stderr


def test_every_file_is_written_and_no_word_is_left_open(tmp_path: Path) -> None:
    """With its name in place; `.run` is there for the first key."""
    written = write_repository("city-trips", tmp_path)

    files = {str(path.relative_to(written)): path.read_text("utf-8") for path in written.rglob("*") if path.is_file()}
    assert len(files) == len(FILES) + 1
    assert {".run/.gitkeep", "city_trips_agent.py", "tests/test_city_trips.py"} <= files.keys()
    assert [path for path, text in files.items() if "$name" in text or "${module}" in text] == []
    assert "enabled_via_flag: ai_assistant_subagent_city-trips\n" in files["config/agent_config.yaml"]


def test_the_help_says_what_comes_next() -> None:
    """What is written, an example, and the exit codes."""
    code, printed, _ = init("--help")
    out = " ".join(printed.split())
    assert code == 0
    for taught in ("first dispatch", "sidecar init travel", "README.md", "64"):
        assert taught in out
