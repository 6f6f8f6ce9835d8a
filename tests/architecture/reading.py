"""Reads source trees for the rules: the repository's own, or a small offending one that a test makes."""

import ast
import gc
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parent.parent.parent
ROOTS: Final[Mapping[str, str]] = {
    "sidecar": "sidecar",
    "proto/python/subagents_errors": "subagents_errors",
    "proto/python/subagents_legacy": "subagents_legacy",
    "proto/python/subagents_tls": "subagents_tls",
    "clients": "clients",
    "plugins": "plugins",
    "examples": "examples",
    "scripts": "scripts",
    "tests": "tests",
}
"""Folders that hold code of ours, and how their modules are named here. Generated code is not ours."""
NOT_OURS: Final = frozenset({"__pycache__", "build", "dist", "node_modules"})


@dataclass(frozen=True, slots=True)
class Module:
    """One parsed file.

    Attributes:
        name: dotted, e.g. `sidecar.core.errors`; a package's `__init__` has the package's name.
        path: relative to the root of the tree it was read from.
        nodes: of the whole tree, walked once for all rules; without `ast.Load` and its like, a third of them.
    """

    name: str
    path: Path
    text: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]

    def at(self, node: ast.AST) -> str:
        """Return where `node` stands, e.g. `sidecar/core/errors.py:12`."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}"


def modules(*folders: str, root: Path = REPOSITORY) -> list[Module]:
    """Return every module of ours below the given folders, in a fixed order.

    Args:
        folders: such as `sidecar` or `sidecar/core`; none means all.
        root: of the tree.
    """
    files = _own_files() if root == REPOSITORY else _files(root)
    return [_parsed(path, root) for path in files if not folders or _is_below(path.relative_to(root), folders)]


def planted(root: Path, files: Mapping[str, str]) -> Path:
    """Write a small source tree for a rule to look at, and return its root.

    Args:
        root: an empty folder.
        files: content by path; indentation common to all lines is removed.
    """
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(textwrap.dedent(content), encoding="utf-8")
    return root


def imported_names(module: Module) -> Iterator[tuple[str, ast.stmt]]:
    """Yield everything a module imports, dotted and with the imported name at its end, also inside functions."""
    for node in module.nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = "." * node.level + (node.module or "")
            yield from ((f"{source}.{alias.name}", node) for alias in node.names)


def dotted(node: ast.expr) -> str:
    """Return `a.b.c` for such an expression, else what is readable of its end, e.g. `().c`."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return "()"


def _files(root: Path) -> Iterator[Path]:
    for folder in ROOTS:
        for path in sorted((root / folder).rglob("*.py")):
            parts = path.relative_to(root).parts
            if not NOT_OURS.intersection(parts) and not any(part.startswith(".") for part in parts):
                yield path


@cache
def _own_files() -> tuple[Path, ...]:
    return tuple(_files(REPOSITORY))


def _is_below(path: Path, folders: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Return all nodes as `ast.walk` orders them, in half of its time."""
    found: list[ast.AST] = [tree]
    for node in found:
        for name in node._fields:
            if name == "ctx":
                continue
            value = getattr(node, name, None)
            if isinstance(value, list):
                found += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return tuple(found)


@cache
def _parsed(path: Path, root: Path) -> Module:
    relative = path.relative_to(root)
    text = path.read_text(encoding="utf-8")
    folder = next(folder for folder in ROOTS if relative.is_relative_to(folder))
    parts = [ROOTS[folder], *relative.relative_to(folder).with_suffix("").parts]
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    # The nodes are kept, and are millions: to look for garbage among them takes twice as long as to parse.
    gc.disable()
    tree = ast.parse(text, filename=str(relative))
    nodes = _nodes(tree)
    gc.freeze()
    gc.enable()
    return Module(name, relative, text, tree, nodes)
