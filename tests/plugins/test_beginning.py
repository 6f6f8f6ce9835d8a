"""`sidecar plugins new`: what it writes is installed, passes its own tests, and is healthy."""

import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from sidecar.cli.plugins.scaffold import write_scaffold
from sidecar.cli.scaffolding.project_files import ScaffoldError
from sidecar.policy.kinds import PluginKind

pytestmark = pytest.mark.system

ROOT: Final = Path(__file__).parents[2]
LEAST_CASES: Final = 6
BAD_NAMES: Final = ["", "Rewards", "rewards_flags", "-rewards", "rewards-", "re--wards", "9lives", "../rewards", "a/b"]


def run(command: list[str], folder: Path, site: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """Run a command in `folder`, with what is installed in `site` on the path."""
    environment = {**os.environ, "PYTHONPATH": str(site or ""), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=400, check=False
    )


def sidecar(arguments: list[str], folder: Path, site: Path) -> Any:
    """Run `sidecar ... --json`; return what it printed."""
    done = run([sys.executable, "-m", "sidecar", *arguments, "--json"], folder, site)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@dataclass(frozen=True, slots=True)
class Made:
    """A project of each kind, all installed in one place."""

    projects: dict[PluginKind, Path]
    site: Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Write them, and install them as anybody would, without a network."""
    folder = tmp_path_factory.mktemp("plugins")
    projects = {kind: write_scaffold(kind, name_of(kind), folder) for kind in PluginKind}
    offline = ["--no-deps", "--no-index", "--no-build-isolation", "--quiet", "--target", str(folder / "site")]
    installing = [sys.executable, "-m", "pip", "install", *offline, *map(str, projects.values())]
    done = run(installing, folder)
    assert done.returncode == 0, done.stderr
    return Made(projects, folder / "site")


def name_of(kind: PluginKind) -> str:
    """Return what the project of a kind is called here."""
    return f"made-{kind}"


TESTED: Final = """
import json, os, pathlib, sys, pytest, sidecar_conformance
alone = ["-q", "--disable-plugin-autoload", "-p", "no:cacheprovider"]  # without what else is installed here
codes = []
for folder in sys.argv[1:]:
    if (child := os.fork()) == 0:
        os.chdir(folder)
        os.dup2(os.open("tested.txt", os.O_CREAT | os.O_WRONLY), 1)
        code = pytest.main(alone)
        sys.stdout.flush()
        os._exit(code)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(json.dumps(codes))
"""
"""Runs `pytest` in each folder, as a process of its own that need not import it again; prints the exit codes."""


@pytest.fixture(scope="module")
def tested(made: Made) -> dict[PluginKind, tuple[int, str]]:
    """What the tests of each project said when they were run in its folder, and their exit code."""
    done = run([sys.executable, "-c", TESTED, *map(str, made.projects.values())], ROOT, made.site)
    assert done.returncode == 0, done.stderr
    codes = zip(made.projects.items(), json.loads(done.stdout), strict=True)
    return {kind: (code, (folder / "tested.txt").read_text("utf-8")) for (kind, folder), code in codes}


@pytest.mark.parametrize("kind", list(PluginKind))
def test_what_is_written_passes_its_own_tests(kind: PluginKind, tested: dict[PluginKind, tuple[int, str]]) -> None:
    """Against the plugin as it is installed, not as it lies there."""
    code, said = tested[kind]

    assert code == 0, said
    passed = re.search(r"^([0-9]+) passed", said, re.MULTILINE)
    assert passed is not None
    assert int(passed[1]) >= LEAST_CASES


@pytest.mark.seconds(600)
def test_what_is_written_is_healthy_and_chosen_by_the_settings_of_its_readme(made: Made, tmp_path: Path) -> None:
    """`plugins doctor` and `plugins list`, with the settings of all kinds together."""
    settings = tmp_path / "sidecar.toml"
    settings.write_text(as_toml(all_settings(made, tmp_path)), encoding="utf-8")

    rows = sidecar(["plugins", "doctor", "--timeout", "240", "--config", str(settings)], tmp_path, made.site)
    listed = sidecar(["plugins", "list", "--config", str(settings)], tmp_path, made.site)

    found = {row["plugin"]: (row["state"], row["enabled"], row["offers"]) for row in rows}
    states = {row["name"]: (row["kind"], row["state"]) for row in listed}
    for kind in PluginKind:
        name = name_of(kind)
        assert found[f"{name}:{name}"] == ("healthy", True, [f"{kind} {name}"])
        assert states[name] == (kind, "active")


def all_settings(made: Made, folder: Path) -> dict[str, Any]:
    """Return what the READMEs show, as one, with places that exist; and what every sidecar needs."""
    whole: dict[str, Any] = {"definitions": {"path": str(ROOT / "examples" / "config")}, "dispatch": {"fan_out_cap": 3}}
    for project in made.projects.values():
        text = (project / "README.md").read_text("utf-8").split("```toml\n")[1].split("```")[0]
        there = text.replace("/etc/sidecar", str(folder)).replace("/var/lib/sidecar", str(folder))
        joined(whole, tomllib.loads(there))
    return whole


def joined(whole: dict[str, Any], more: dict[str, Any]) -> None:
    """Add settings to settings; lists grow."""
    for name, value in more.items():
        if isinstance(value, dict):
            joined(whole.setdefault(name, {}), value)
        elif isinstance(value, list):
            whole[name] = [*whole.get(name, ()), *value]
        else:
            whole[name] = value


def as_toml(value: dict[str, Any]) -> str:
    """Return settings as a file."""

    def inline(part: Any) -> str:
        if isinstance(part, dict):
            return "{" + ", ".join(f"{json.dumps(name)} = {inline(each)}" for name, each in part.items()) + "}"
        return json.dumps(part)

    return "".join(f"{name} = {inline(part)}\n" for name, part in value.items())


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Rewards",
        "rewards_flags",
        "-rewards",
        "rewards-",
        "re--wards",
        "9lives",
        "../rewards",
        "a/b",
        "r" * 41,
        "ré",
    ],
)
def test_a_name_that_cannot_be_one_is_refused(name: str, tmp_path: Path) -> None:
    """It says what a name is made of; nothing is written."""
    with pytest.raises(ScaffoldError, match="lower-case letters, digits and single `-`"):
        write_scaffold(PluginKind.RUNNER, name, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["json", "class", "sidecar", "sidecar-conformance", "pytest"])
def test_a_name_that_python_has_already_is_refused(name: str, tmp_path: Path) -> None:
    """The plugin would hide a module, or be hidden by it."""
    with pytest.raises(ScaffoldError, match="exists already; choose another name"):
        write_scaffold(PluginKind.RUNNER, name, tmp_path)


@pytest.mark.parametrize("there", ["folder", "file", "dangling link"])
def test_what_is_there_is_left_alone(there: str, tmp_path: Path) -> None:
    """Whatever it is, and however empty."""
    place = tmp_path / "made-plugin"
    if there == "folder":
        place.mkdir()
    elif there == "file":
        place.write_text("mine")
    else:
        place.symlink_to(tmp_path / "nowhere")

    with pytest.raises(ScaffoldError, match="exists already"):
        write_scaffold(PluginKind.RUNNER, "made-plugin", tmp_path)

    assert [each.name for each in tmp_path.iterdir()] == ["made-plugin"]
    assert there != "folder" or list(place.iterdir()) == []


def test_the_command_writes_and_refuses(tmp_path: Path) -> None:
    """Exit code 0 and where it is; the second time 64 and why; nothing is left lying about."""
    command = [sys.executable, "-m", "sidecar", "plugins", "new", "runner", "made-plugin", "--dir", str(tmp_path)]

    first, second = (run(command, ROOT) for _ in range(2))

    assert (first.returncode, second.returncode) == (0, 64)
    assert f"{tmp_path}/made-plugin, a plugin of the kind runner" in first.stdout
    assert "exists already" in second.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["made-plugin"]
    gone = run([*command[:-1], str(tmp_path / "nowhere")], ROOT)
    assert (gone.returncode, "cannot be written: No such file" in gone.stderr) == (64, True)
