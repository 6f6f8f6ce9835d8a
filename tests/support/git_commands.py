"""Git, as a test calls it: nobody's settings, a fixed author."""

import os
import subprocess
from pathlib import Path
from typing import Final

from tests.support.named_skips import needs_tool

ALONE: Final = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    **{
        f"GIT_{role}_{what}": value
        for role in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "nobody"), ("EMAIL", "nobody@example.com"))
    },
}


def git(folder: Path, *arguments: str, given: str | None = None, **around: str) -> str:
    """Run git in a folder and return what it says.

    Args:
        folder: where.
        arguments: of its command line.
        given: its standard input.
        around: more of its environment.
    """
    command = [needs_tool("git"), *arguments]
    env = {**os.environ, **ALONE, **around}
    return subprocess.run(
        command, cwd=folder, env=env, input=given, capture_output=True, text=True, timeout=300, check=True
    ).stdout.strip()
