"""The core computes: it does not wait, look at the clock, draw randomness, log, or touch anything outside.

So one can read a decision without thinking of time, and test it without a loop.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.reading import Module, dotted, imported_names, modules, planted

FORBIDDEN_MODULES: Final = frozenset(
    "asyncio concurrent ctypes fcntl getpass glob http io logging mmap multiprocessing os pathlib pickle platform "
    "queue random sched secrets select selectors shelve shutil signal socket socketserver sqlite3 ssl subprocess "
    "tempfile threading time urllib uuid warnings weakref".split()
)
HARMLESS: Final = frozenset({"pathlib.PurePath", "pathlib.PurePosixPath", "urllib.parse"})
"""Parts of the above that only compute."""
FORBIDDEN_CALLS: Final = frozenset({"open", "print", "input", "breakpoint", "exec", "eval", "__import__"})
FORBIDDEN_METHODS: Final = frozenset({"now", "utcnow", "today"})
"""Of `datetime` and `date`: the clock by another door."""
WAITING: Final = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)


def violations(found: list[Module]) -> Iterator[str]:
    """Yield each impure place."""
    for module in found:
        for name, statement in imported_names(module):
            if name.split(".")[0] in FORBIDDEN_MODULES and not _is_harmless(name):
                yield f"{module.at(statement)} imports {name}"
        for node in module.nodes:
            if isinstance(node, WAITING):
                yield f"{module.at(node)} waits ({type(node).__name__})"
            elif isinstance(node, ast.Call) and _is_forbidden(dotted(node.func)):
                yield f"{module.at(node)} calls {dotted(node.func)}"


def _is_harmless(name: str) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in HARMLESS)


def _is_forbidden(called: str) -> bool:
    *owner, method = called.split(".")
    return called in FORBIDDEN_CALLS or (owner[-1:] in (["datetime"], ["date"]) and method in FORBIDDEN_METHODS)


def test_the_core_is_pure() -> None:
    """Every module of `sidecar/core`."""
    assert list(violations(modules("sidecar/core"))) == []


@pytest.mark.parametrize(
    "line",
    [
        "import time",
        "from random import choice",
        "import os.path",
        "import urllib.request",
        "from pathlib import Path",
        "import logging",
        "async def later() -> None: ...",
        "from datetime import datetime\nNOW = datetime.now()",
        "import datetime\nTODAY = datetime.date.today()",
        "TEXT = open('card.yaml')",
        "print('here')",
    ],
)
def test_an_impure_line_is_caught(line: str, tmp_path: Path) -> None:
    """One offender of each kind."""
    assert len(list(violations(modules(root=planted(tmp_path, {"sidecar/core/x.py": line}))))) == 1


def test_computing_with_times_and_paths_is_let_through(tmp_path: Path) -> None:
    """Values of time and pure paths are not clocks and files."""
    line = "from datetime import timedelta\nfrom pathlib import PurePosixPath\nfrom urllib.parse import quote"
    assert list(violations(modules(root=planted(tmp_path, {"sidecar/core/x.py": line})))) == []
