"""Every package as users install it: dependencies come from the registry; alone, together, lowest and newest LangChain.

Minutes of downloads, so a part of `make torture`: `pytest tests/packages/installs_from_registry.py`.
"""

import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from scripts.build_packages import REPOSITORY, package_folders
from tests.packages.built import BuiltPackage, project_in, requirements_of
from tests.packages.environments import Environment

EXTRAS: Final = {
    "dispatch-sidecar": "[all]",
    "subagents-loadgen": "[locust]",
    "sidecar-flags-openfeature": "[flagd,ofrep]",
    "sidecar-runner-langchain": "[in-process]",
}
INSTALLED: Final = tuple(
    name + EXTRAS.get(name, "") for name in (str(project_in(folder)["name"]) for folder in package_folders())
)
IMPORT_EVERY_MODULE: Final = """
import importlib, pkgutil, sys
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    for found in pkgutil.walk_packages(package.__path__, name + "."):
        if not found.name.endswith(("__main__", "locust_user")):
            importlib.import_module(found.name)
"""
LANGCHAIN: Final = REPOSITORY / "clients" / "langchain"
RANGED: Final = ("langchain", "langchain-core", "langgraph", "pydantic")


def installed(folder: Path, built: Sequence[BuiltPackage], *requirements: str) -> Environment:
    """Return an empty environment into which packages were installed, ours from the built wheels."""
    environment = Environment(folder)
    environment.install("--find-links", str(built[0].wheel.parent), "--only-binary", ":all:", *requirements)
    return environment


@pytest.mark.parametrize("requirement", INSTALLED)
def test_a_package_alone_brings_all_that_its_modules_import(
    requirement: str, built: Sequence[BuiltPackage], tmp_path: Path
) -> None:
    """Each in an environment of its own; every module is imported."""
    environment = installed(tmp_path / "alone", built, requirement)
    (package,) = [one for one in built if one.name == requirement.partition("[")[0]]
    environment.run("python", "-W", "ignore", "-c", IMPORT_EVERY_MODULE, *package.modules)


def test_all_packages_together_are_compatible(built: Sequence[BuiltPackage], tmp_path: Path) -> None:
    """One resolution for everything; `pip check` agrees, and the commands run."""
    environment = installed(tmp_path / "together", built, *INSTALLED)
    environment.check()
    modules = [module for package in built for module in package.modules]
    environment.run("python", "-W", "ignore", "-c", IMPORT_EVERY_MODULE, *modules)
    assert "usage" in environment.run("sidecar", "--help").lower()


@pytest.mark.parametrize("end", ["lowest", "newest"])
def test_the_langchain_package_works_at_both_ends_of_its_ranges(end: str, tmp_path: Path) -> None:
    """All of its tests, with the oldest versions that it declares, and with the newest ones that there are."""
    environment = Environment(tmp_path / "ends")
    beside = f'import site; site.addsitedir("{sysconfig.get_path("purelib")}")\n'
    (environment.site / "beside.pth").write_text(beside, "utf-8")
    declared = {one.name: one for one in requirements_of(project_in(LANGCHAIN))}
    sign = "==" if end == "lowest" else ">="
    floors = [f"{name}{sign}{str(declared[name].specifier).removeprefix('>=')}" for name in RANGED]
    environment.install("--ignore-installed", "--upgrade", *floors)

    done = subprocess.run(
        [environment.python, "-m", "pytest", "-q", "-n", "1", "-p", "no:cacheprovider", str(LANGCHAIN)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )

    assert done.returncode == 0, done.stdout[-5_000:]
