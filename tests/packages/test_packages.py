"""Wheels and sdists: complete, without anything of this machine or of the tests, and installable together."""

import json
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import distribution, packages_distributions
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from scripts.build_packages import REPOSITORY, package_folders
from tests.packages.built import BuiltPackage, plain, project_in, requirements_of
from tests.packages.environments import Environment

OWN: Final = {plain(project_in(folder)["name"]) for folder in package_folders()}
VERSION: Final = str(project_in(REPOSITORY)["version"])
TEMPLATE: Final = REPOSITORY / "sidecar" / "cli" / "plugin_templates" / "pyproject.toml.txt"
INIT_REQUIREMENTS: Final = REPOSITORY / "sidecar" / "cli" / "init_templates" / "requirements.txt.txt"
ABSOLUTE: Final = re.compile(rb"/(?:home|root|work|Users|build)/[\w.-]+/")
COMMANDS: Final[Sequence[tuple[str, ...]]] = (
    ("sidecar", "--help"),
    ("sidecar", "eval", "--help"),
    ("sidecar", "mcp-pins", "--help"),
    ("-m", "sidecar_runner_langchain", "--help"),
)
STARTED: Final = ("subagents-loadgen", "--help")
"""The command that is started by itself: pip writes the first lines of all of them in the same way."""
IMPORT_ALL: Final = """
import importlib, json, sys
from importlib.metadata import entry_points
for name in json.loads(sys.argv[1]):
    print(importlib.import_module(name).__file__)
for group in ("sidecar.plugins", "sidecar.commands", "console_scripts", "pytest11"):
    for point in entry_points(group=group):
        if point.module.partition(".")[0] in json.loads(sys.argv[1]):
            print(sys.modules[point.load().__module__].__file__ if point.attr else point.load().__file__)
"""
RUN_ALL: Final = """
import os, pathlib, runpy
for command in json.loads(sys.argv[2]):
    print("\\0", end="", flush=True)
    if (child := os.fork()) == 0:
        sys.argv = command
        if command[0] == "-m":
            sys.argv = command[1:]
            runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(str(pathlib.Path(sys.executable).with_name(command[0])), run_name="__main__")
        os._exit(1)  # each of them has to end by itself
    if os.waitpid(child, 0)[1] != 0:
        sys.exit(f"failed: {command}")
"""
"""Behind `IMPORT_ALL`: runs commands in copies of the process, so that none imports all of it again."""


def name_of(folder: Path) -> str:
    """Return what pip calls the package in a folder."""
    return str(project_in(folder)["name"])


def tracked(package: BuiltPackage) -> set[str]:
    """Return the files of a package that are in git, or about to be."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *package.modules],
        cwd=package.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return {one for one in listed.stdout.splitlines() if (package.folder / one).exists()}


def test_every_wheel_has_each_file_of_its_package_and_nothing_else(built: Sequence[BuiltPackage]) -> None:
    """Data files too; no tests, no compiled code."""
    for package in built:
        files = {name for name in package.files_of_wheel() if ".dist-info/" not in name}
        assert files == tracked(package), package.name
        assert {f"{module}/py.typed" for module in package.modules} <= files, package.name


def test_every_sdist_has_what_its_wheel_is_built_from_and_nothing_else(built: Sequence[BuiltPackage]) -> None:
    """Package, README, licence, pyproject."""
    for package in built:
        files = set(package.files_of_sdist()) - {".gitignore"}
        assert files == tracked(package) | {"PKG-INFO", "pyproject.toml", "README.md", "LICENSE"}, package.name


def test_nothing_names_a_path_of_the_machine_that_built_it(built: Sequence[BuiltPackage]) -> None:
    """Neither the wheels nor the sdists."""
    for package in built:
        for name, content in {**package.files_of_wheel(), **package.files_of_sdist()}.items():
            assert str(REPOSITORY).encode() not in content, (package.name, name)
            assert not ABSOLUTE.search(content), (package.name, name)


def test_metadata_say_what_a_registry_shows(built: Sequence[BuiltPackage]) -> None:
    """Version, licence with its text, README, the oldest Python, and that there are types."""
    licence = (REPOSITORY / "LICENSE").read_bytes()
    for package in built:
        metadata = package.metadata()
        assert metadata["Version"] == VERSION, package.name
        assert metadata["License-Expression"] == "Apache-2.0", package.name
        assert metadata["Requires-Python"] == ">=3.11", package.name
        assert metadata["Description-Content-Type"] == "text/markdown", package.name
        assert "Typing :: Typed" in metadata.get_all("Classifier", ()), package.name
        readme = (package.folder / "README.md").read_text("utf-8")
        assert f"pip install {package.name}" in readme or f"'{package.name}[" in readme, package.name
        texts = [value for name, value in package.files_of_wheel().items() if name.endswith("licenses/LICENSE")]
        assert texts == [licence], package.name


def test_twine_accepts_every_file(built: Sequence[BuiltPackage]) -> None:
    """The check that precedes an upload."""
    files = [str(file) for package in built for file in (package.sdist, package.wheel)]
    done = subprocess.run(
        [sys.executable, "-m", "twine", "--no-color", "check", "--strict", *files],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == len(files)


# --- versions


def own_ranges(folder: Path) -> Iterator[tuple[str, SpecifierSet]]:
    """Yield the packages of ours that a package needs, and in which versions."""
    project = project_in(folder)
    for one in requirements_of(project):
        if plain(one.name) in OWN and plain(one.name) != plain(project["name"]):
            yield one.name, one.specifier


@pytest.mark.parametrize("folder", package_folders(), ids=name_of)
def test_our_packages_ask_for_a_range_of_each_other(folder: Path) -> None:
    """This version and its patches; not the next minor version, which may be incompatible before 1.0."""
    assert project_in(folder)["version"] == VERSION
    major, minor, _ = VERSION.split(".")
    for name, versions in own_ranges(folder):
        assert versions.contains(VERSION), name
        assert versions.contains(f"{major}.{minor}.99"), name
        assert not versions.contains(f"{major}.{int(minor) + 1}.0"), name
        assert not versions.contains(f"{major}.{int(minor) - 1}.0"), name


def test_a_new_plugin_asks_for_the_same_range() -> None:
    """`sidecar plugins new` writes it."""
    content = TEMPLATE.read_text("utf-8")
    (asked,) = re.findall(r'"dispatch-sidecar([^"]*)"', content)
    assert SpecifierSet(asked).contains(VERSION)
    assert f'"sidecar-conformance{asked}"' in content


def test_a_new_repository_asks_for_the_same_range() -> None:
    """`sidecar init` writes it."""
    asked = {plain(one.name): one.specifier for one in map(Requirement, INIT_REQUIREMENTS.read_text("utf-8").split())}
    ours = {name: versions for name, versions in asked.items() if name in OWN}
    assert set(ours) == {"dispatch-sidecar", "subagents-client", "subagents-evals", "sidecar-gates-manifest"}
    assert [name for name, versions in ours.items() if not versions.contains(VERSION)] == []


def test_the_extra_all_has_every_extra() -> None:
    """A new extra of the sidecar is added to `all`."""
    extras = project_in(REPOSITORY)["optional-dependencies"]
    assert extras["all"] == [f"dispatch-sidecar[{','.join(sorted(set(extras) - {'all'}))}]"]


def test_every_third_party_range_admits_what_the_tests_run_with() -> None:
    """The lock is inside of what the packages declare, and each has a floor."""
    for folder in package_folders():
        for one in requirements_of(project_in(folder)):
            if plain(one.name) in OWN or (one.marker and not one.marker.evaluate()) or "mlflow" in one.name:
                continue
            assert one.specifier.contains(distribution(one.name).version, prereleases=True), (folder.name, str(one))
            assert ">=" in str(one.specifier), (folder.name, str(one))


IMPORT: Final = re.compile(r"^ *(?:from|import) +(\w+)", re.MULTILINE)
"""Of the text, as parsing takes ten seconds. What is no package, such as a word of a docstring, has no owner."""


@pytest.fixture(scope="module")
def owners() -> Mapping[str, set[str]]:
    """Distributions by the package that they bring; ours are installed as a path, which names no packages."""
    found = {name: {plain(one) for one in names} for name, names in packages_distributions().items()}
    ours = [BuiltPackage(folder, folder, folder) for folder in package_folders()]
    return found | {module: {plain(package.name)} for package in ours for module in package.modules}


OPTIONAL: Final = {
    # Imported inside `try`, and the package works without it.
    "subagents-client": {"opentelemetry"},
    "dispatch-sidecar": {"pytest", "sidecar_conformance"},
}


@pytest.mark.parametrize("folder", package_folders(), ids=name_of)
def test_a_package_declares_whatever_it_imports(folder: Path, owners: Mapping[str, set[str]]) -> None:
    """An import of what another package happens to bring breaks when that package stops bringing it."""
    package = BuiltPackage(folder, folder, folder)
    declared = {plain(one.name) for one in requirements_of(package.project)} | {plain(package.name)}
    undeclared = set()
    for top in package.modules:
        for module in (folder / top).rglob("*.py"):
            for name in IMPORT.findall(module.read_text("utf-8")):
                brought = owners.get(name, set())
                allowed = name in sys.stdlib_module_names or name in OPTIONAL.get(package.name, set())
                if brought and not allowed and not brought & declared:
                    undeclared.add(f"{name} ({', '.join(sorted(brought))})")
    assert undeclared == set(), "declare: " + ", ".join(sorted(undeclared))


# --- installed


def test_an_old_python_is_refused_with_the_version_that_is_needed(tmp_path: Path) -> None:
    """By `make demo`, before anything is made; pip refuses by the metadata of the wheels."""
    old = tmp_path / "python3.10"
    old.write_text(
        f"""#!/bin/sh\nexec {sys.executable} -c 'import sys; sys.version_info = (3, 10); exec(sys.argv[1])' "$2"\n"""
    )
    old.chmod(0o755)
    demo = tmp_path / "demo"

    done = subprocess.run(
        ["make", f"DEMO={demo}", f"PYTHON={old}", f"{demo}/.ready"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode != 0
    assert f"{old} is too old: 3.11 or newer, or make PYTHON=..." in done.stdout
    assert not demo.exists()


@pytest.mark.system
@pytest.mark.seconds(120)
def test_all_wheels_together_in_an_empty_environment(built: Sequence[BuiltPackage], tmp_path: Path) -> None:
    """Our packages come from the wheels alone, everything else from the locked environment of the tests."""
    environment = Environment(tmp_path / "environment", [sysconfig.get_path("purelib")])
    environment.install("--no-index", "--no-deps", *(str(package.wheel) for package in built))
    modules = sorted(module for package in built for module in package.modules)

    listed, *said = environment.run(
        "python", "-W", "ignore", "-c", IMPORT_ALL + RUN_ALL, json.dumps(modules), json.dumps(COMMANDS)
    ).split("\0")

    files = listed.split()
    assert len(files) > len(modules)
    assert [file for file in files if not file.startswith(str(environment.site))] == []
    for command, text in zip(COMMANDS, said, strict=True):
        assert "usage" in text.lower(), command
    assert "usage" in environment.run(*STARTED).lower()
