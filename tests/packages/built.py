"""The wheels and sdists of the repository, and what their metadata declares."""

import tarfile
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from functools import cache
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.build_packages import build, package_folders


@dataclass(frozen=True, slots=True)
class BuiltPackage:
    """One package: its folder in the repository, and what was built from it.

    Attributes:
        folder: of its pyproject.toml.
        sdist, wheel: what was built.
    """

    folder: Path
    sdist: Path
    wheel: Path

    @property
    def project(self) -> Mapping[str, Any]:
        """The `project` table of its pyproject.toml."""
        return project_in(self.folder)

    @property
    def name(self) -> str:
        """The name that is given to pip."""
        return str(self.project["name"])

    @property
    def modules(self) -> Sequence[str]:
        """The import packages that it ships, e.g. `subagents_client`."""
        content = tomllib.loads((self.folder / "pyproject.toml").read_text("utf-8"))
        packages: list[str] = content["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
        return packages

    def files_of_wheel(self) -> Mapping[str, bytes]:
        """Return what the wheel holds, by path."""
        with zipfile.ZipFile(self.wheel) as archive:
            return {one: archive.read(one) for one in archive.namelist()}

    def files_of_sdist(self) -> Mapping[str, bytes]:
        """Return what the sdist holds, by path below its own folder."""
        with tarfile.open(self.sdist) as archive:
            members = [(one.name.partition("/")[2], archive.extractfile(one)) for one in archive if one.isfile()]
            return {name: content.read() for name, content in members if content is not None}

    def metadata(self) -> Message:
        """Return the METADATA of the wheel."""
        (content,) = [value for name, value in self.files_of_wheel().items() if name.endswith(".dist-info/METADATA")]
        return BytesParser().parsebytes(content)


def build_all(target: Path) -> Sequence[BuiltPackage]:
    """Build every package into a folder that exists."""
    return [BuiltPackage(folder, *build(folder, target)) for folder in package_folders()]


@cache
def project_in(folder: Path) -> Mapping[str, Any]:
    """Return the `project` table of a pyproject.toml."""
    project: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    return project


def requirements_of(project: Mapping[str, Any]) -> Sequence[Requirement]:
    """Return what a package declares, its extras included."""
    extras: Mapping[str, list[str]] = project.get("optional-dependencies", {})
    return [
        Requirement(one) for one in (*project.get("dependencies", []), *(each for e in extras.values() for each in e))
    ]


def plain(name: str) -> str:
    """Return a package name as registries compare it."""
    return str(canonicalize_name(name))
