"""The names that the standard library has on Linux and not on macOS, read from the type stubs that mypy brings."""

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import mypy

from tests.architecture.reading import Module

STUBS: Final = Path(mypy.__file__).parent / "typeshed" / "stdlib"
WITH_PLATFORMS: Final = ("errno", "fcntl", "mmap", "os", "resource", "select", "signal", "socket", "time")
"""Modules of the standard library in which what there is depends on the platform."""


@cache
def only_on_linux(module: str) -> frozenset[str]:
    """Return the names that a module has on Linux and not on macOS."""
    path = STUBS / f"{module}.pyi"
    tree = ast.parse((path if path.exists() else STUBS / module / "__init__.pyi").read_text("utf-8"))
    return frozenset(_names(tree.body, "linux")) - frozenset(_names(tree.body, "darwin"))


def uses_of_linux(modules: Iterable[Module]) -> Iterator[str]:
    """Yield each place that takes such a name; one that is looked up with `getattr` has a fallback and is none."""
    for module in modules:
        known = {name: name for name in WITH_PLATFORMS}
        for node in module.nodes:
            if isinstance(node, ast.Import):
                known |= {each.asname: each.name for each in node.names if each.asname and each.name in WITH_PLATFORMS}
            elif isinstance(node, ast.ImportFrom) and node.module in WITH_PLATFORMS:
                found = {each.name for each in node.names} & only_on_linux(node.module)
                yield from (f"{module.at(node)} {node.module}.{name}" for name in sorted(found))
        for node in module.nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known:
                whose = known[node.value.id]
                if node.attr in only_on_linux(whose):
                    yield f"{module.at(node)} {whose}.{node.attr}"


def _names(body: Sequence[ast.stmt], platform: str) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, ast.If):
            yield from _names(statement.body if _holds(statement.test, platform) else statement.orelse, platform)
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield statement.name
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id
        elif isinstance(statement, ast.Assign):
            yield from (target.id for target in statement.targets if isinstance(target, ast.Name))
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            yield from (each.asname or each.name for each in statement.names)


def _holds(condition: ast.expr, platform: str) -> bool:
    known = {"sys": SimpleNamespace(platform=platform, version_info=sys.version_info)}
    return bool(eval(compile(ast.Expression(condition), "stub", "eval"), known))
