"""The TypeScript client as a user has it: packed, and installed into an empty project."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.named_skips import needs_tool

REPOSITORY: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = REPOSITORY / "clients" / "typescript"
NODE: Final = 18
MADE: Final = ("node_modules", "dist", "generated", "tests")
CACHE: Final = REPOSITORY / ".pytest_cache" / "npm"
_INSTALLED: Final[list[Path]] = []


async def ran(folder: Path, *command: str, **environment: str) -> str:
    """Run a program that has to succeed and return its standard output."""
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    npm = {"npm_config_cache": str(CACHE), "npm_config_update_notifier": "false", "npm_config_prefer_offline": "true"}
    program = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**os.environ, "PATH": tools, **npm, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await program.communicate()
    assert program.returncode == 0, f"{' '.join(command)}\n{output.decode()}\n{errors.decode()}"
    return output.decode()


def needs_node() -> None:
    """Skip the test, by name, unless node and npm are there and new enough."""
    node = needs_tool("node", package="nodejs")
    needs_tool("npm")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.match(r"v(\d+)\.", version)
    if found is None or int(found[1]) < NODE:
        pytest.skip(f"missing tool: node {NODE} or newer (Debian package nodejs); this one is {version.strip()}")


async def packed(folder: Path) -> Path:
    """Install the tools of the package from its lock, generate, compile and pack it; return the packed file."""
    shutil.copytree(REPOSITORY / "proto", folder / "proto", ignore=shutil.ignore_patterns("python"))
    package = folder / "clients" / "typescript"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns(*MADE))
    await ran(package, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent")
    await ran(package, "npm", "run", "--silent", "generate")
    await ran(package, "npm", "run", "--silent", "build")
    name = await ran(package, "npm", "pack", "--silent", "--ignore-scripts")
    return package / name.strip()


async def installed_project(folders: pytest.TempPathFactory) -> Path:
    """Return an empty project that has installed the packed client; made once for the tests of a process."""
    needs_node()
    if not _INSTALLED:
        folder = folders.mktemp("typescript")
        file = await packed(folder)
        project = folder / "empty-project"
        project.mkdir()
        (project / "package.json").write_text('{"name": "empty", "private": true, "type": "module"}\n', "utf-8")
        install = ("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent")
        await ran(project, *install, str(file))
        _INSTALLED.append(project)
    return _INSTALLED[0]
