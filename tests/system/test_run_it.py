"""What README has a newcomer type to run it, typed: a data service, a sub-agent and the sidecar, as anybody."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.settings import Settings, read_settings
from sidecar.settings.section import Section
from tests.support.requirement import requirement
from tests.support.sidecar_process import ROOT, place
from tests.support.typed_commands import free_port, typed_in

pytestmark = pytest.mark.system

DOCUMENTED = re.compile(r"## Run it\n.*?```console\n(.*?)```", re.DOTALL)
SERVING = "sidecar serve --config examples/sidecar.toml"
UNTIL_IT_SERVES = """
until sidecar health --config examples/sidecar.toml >health 2>&1; do kill -0 $!; done
until [ -S .run/shop.sock ]; do kill -0 %2; done
"""
SECONDS = 300.0


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with the examples in it, as the root of the repository has them."""
    with place() as path:
        (path / "examples").symlink_to(ROOT / "examples")
        (path / ".demo-venv" / "bin").mkdir(parents=True)  # the environment of the tests is in its place
        (path / ".demo-venv" / "bin" / "activate").touch()
        yield path


def paths_in(section: Section) -> Iterator[Path]:
    """Yield every path that settings name."""
    for name in section.SETTINGS:
        value = getattr(section, name)
        if isinstance(value, Section):
            yield from paths_in(value)
        elif isinstance(value, Path):
            yield value


def what_it_uses(settings: Settings) -> list[Path]:
    """Return the paths of what the example switches on: no operators, no PostgreSQL."""
    return [*paths_in(settings.server), *paths_in(settings.record.sqlite), *paths_in(settings.definitions)]


@requirement("PF1-D-74")
def test_a_plain_user_runs_it_in_a_fresh_clone(folder: Path) -> None:
    """Everything that is written lies below `.run`; the sidecar says that it takes turns, and all of it stops."""
    found = DOCUMENTED.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert found is not None
    commands = [line.removeprefix("$ ") for line in found[1].splitlines()]
    assert commands[-1] == SERVING
    script = "\n".join(["set -e", *commands[:-1], f"{SERVING} >log 2>&1 &", UNTIL_IT_SERVES, "cat health"])
    stopped = script.replace("--port 8480", f"--port {free_port()}") + "\nkill $(jobs -p); wait"
    _, out = typed_in(folder, stopped, SECONDS, PYTHONPATH=str(ROOT))
    assert "ready (200)" in out, out + (folder / "log").read_text()
    written = {path.name for path in folder.iterdir()} - {"config", "examples", ".demo-venv", "log", "health"}
    assert written == {".run"}
    assert (folder / ".run" / "record" / "record.sqlite").is_file()


def test_every_path_of_the_example_is_below_where_it_is_started() -> None:
    """The tests may run as root, which can write anywhere: so the paths are looked at, too."""
    settings = read_settings(ROOT / "examples" / "sidecar.toml", {})
    paths = what_it_uses(settings)

    assert len(paths) >= 5
    assert [path for path in paths if not path.absolute().is_relative_to(Path.cwd())] == []
