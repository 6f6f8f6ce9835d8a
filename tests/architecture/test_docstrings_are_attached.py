"""A docstring stands where tools look for it: first in what it describes, or right below the name that is assigned."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.reading import Module, modules, planted

DESCRIBED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

BLOCKS: Final = ("body", "orelse", "finalbody")


def violations(found: list[Module]) -> Iterator[str]:
    """Yield each bare string that describes nothing, or what stands above it by mistake."""
    for module in found:
        for node in module.nodes:
            for name in BLOCKS:
                yield from (module.at(each) for each in _stray(node, getattr(node, name, ())))


def _stray(node: ast.AST, block: object) -> Iterator[ast.AST]:
    if not isinstance(block, list):  # a lambda's body is one expression
        return
    for at, each in enumerate(block):
        if not (
            isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) and isinstance(each.value.value, str)
        ):
            continue
        above = block[at - 1] if at else None
        begins = above is None and isinstance(node, DESCRIBED)
        if not begins and not _names_something(node, above):
            yield each


def _names_something(node: ast.AST, above: ast.AST | None) -> bool:
    """Whether a string below is the docstring of a name: of a module, of a class, or an attribute set by a method."""
    if not isinstance(above, (ast.Assign, ast.AnnAssign)):
        return False
    targets = above.targets if isinstance(above, ast.Assign) else [above.target]
    return isinstance(node, (ast.Module, ast.ClassDef)) or all(isinstance(each, ast.Attribute) for each in targets)


def test_every_docstring_belongs_to_something() -> None:
    """A comment in quotes would be read as the description of its neighbour."""
    assert list(violations(modules())) == []


@pytest.mark.parametrize(
    "code",
    [
        'class One:\n    """Of one."""\n"""Of two."""\nclass Two: ...\n',
        'import os\n"""Of the module, too late."""\n',
        'def act() -> None:\n    held = 1\n    """Of held."""\n',
        'if True:\n    """A comment."""\n',
    ],
    ids=["between two classes", "below an import", "of a local variable", "in a branch"],
)
def test_a_stray_docstring_is_found(tmp_path: Path, code: str) -> None:
    """Each of these is read as something else, or as nothing."""
    root = planted(tmp_path, {"sidecar/core/stray.py": code})

    assert len(list(violations(modules(root=root)))) == 1


def test_what_is_attached_is_left_alone(tmp_path: Path) -> None:
    """First in a body, or below a name."""
    code = '"""Of the module."""\nX = 3\n"""Of X."""\nclass A:\n    """Of A."""\n    at = 1\n    """Of at."""\n'
    root = planted(tmp_path, {"sidecar/core/attached.py": code})

    assert list(violations(modules(root=root))) == []
