"""The locks: every package we depend on, with hashes, and no address of a registry."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from scripts.lock_requirements import LOCKS, OURS, TOOLS
from tests.architecture.reading import REPOSITORY

ADDRESS: Final = re.compile(r"://|^\s*(-i|-f|--index-url|--extra-index-url|--find-links|-e)\b", re.MULTILINE)
LOCKED: Final = re.compile(r"^([A-Za-z0-9._-]+)==\S+", re.MULTILINE)
HASH: Final = re.compile(r"^ +--hash=sha256:[0-9a-f]{64}( \\)?$")
ENTRY: Final = re.compile(r"^[A-Za-z0-9._-]+==\S+( ; [^;\\]+)? \\$")


def plain(name: str) -> str:
    """Return the package name as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def wanted(project: Path, groups: tuple[str, ...] = (), *, extras: bool = False) -> Iterator[str]:
    """Yield what a pyproject depends on, directly and through dependency groups and, if asked for, every extra."""
    content: dict[str, Any] = tomllib.loads(project.read_text(encoding="utf-8"))
    requirements = [*content["project"]["dependencies"], *content["build-system"]["requires"]]
    if extras:
        requirements += [one for extra in content["project"]["optional-dependencies"].values() for one in extra]
    pending = list(groups)
    while pending:
        for one in content["dependency-groups"][pending.pop()]:
            if isinstance(one, dict):
                pending.append(one["include-group"])
            else:
                requirements.append(one)
    for requirement in requirements:
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        assert name, requirement
        yield plain(name.group())


def violations(lock: str) -> Iterator[str]:
    """Yield each line that is neither a version, a hash nor a comment, and each address."""
    if found := ADDRESS.search(lock):
        yield f"an address or index: {found.group().strip()}"
    for line in lock.splitlines():
        if not line.startswith("#") and not HASH.match(line) and not ENTRY.match(line):
            yield f"neither a version nor a hash: {line}"


def text_of(name: str) -> str:
    """Return one of the locks."""
    return (REPOSITORY / "requirements" / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*LOCKS, *TOOLS])
def test_a_lock_holds_versions_and_hashes_only(name: str) -> None:
    """No address: any mirror that has the same files will do."""
    assert list(violations(text_of(name))) == []


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_every_dependency(name: str) -> None:
    """Of our packages, their build, and the lock's own group."""
    locked = {plain(found) for found in LOCKED.findall(text_of(name))}
    others = [each for each in LOCKS[name] if each.endswith("/pyproject.toml")]
    needed = {one for project in others for one in wanted(REPOSITORY / project)}
    needed |= set(wanted(REPOSITORY / "pyproject.toml", (name,), extras="--all-extras" in LOCKS[name]))
    assert needed - locked - set(OURS) == set()


@pytest.mark.parametrize("name", TOOLS)
def test_the_lock_of_a_tool_holds_what_it_asks_for(name: str) -> None:
    """And nothing of the project: it is installed beside the environment of the tests."""
    text = (REPOSITORY / "requirements" / f"{name}.in").read_text(encoding="utf-8")
    group = [line for line in text.splitlines() if line and not line.startswith("#")]
    needed = {plain(re.split(r"[^A-Za-z0-9._-]", one)[0]) for one in group}
    assert needed <= {plain(found) for found in LOCKED.findall(text_of(name))}


def test_the_test_lock_knows_every_package_of_ours() -> None:
    """A new plugin is added to the lock."""
    folders = [REPOSITORY / name for name in ("proto", "clients", "plugins")]
    ours = [path for folder in folders for path in folder.glob("*/pyproject.toml")]
    assert {str(path.relative_to(REPOSITORY)) for path in ours} <= set(LOCKS["test"])


@pytest.mark.parametrize(
    "line",
    [
        "--index-url somewhere",
        "httpx @ https://host/httpx.whl \\",
        "-e ./proto/python",
        "httpx==0.28.1",
        "httpx>=0.28 \\",
        "    --hash=md5:00",
    ],
)
def test_an_unlocked_line_is_caught(line: str) -> None:
    """An address, an editable, a version without hash, a range, a weak hash."""
    assert list(violations(f"# comment\n{line}\n"))
