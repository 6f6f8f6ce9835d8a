"""A module says one thing, a function fits on a screen. No list of exceptions."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.reading import Module, dotted, modules, planted

MODULE_LINES: Final = 300
TEST_MODULE_LINES: Final = 400
FUNCTION_LINES: Final = 50
ARGUMENTS: Final = 6
"""Besides `self` or `cls`, of functions and methods; what an object is made of may be more, each with its name."""


@dataclass(frozen=True, slots=True)
class Names:
    """What names stand for at the top of modules.

    Attributes:
        meanings: what is assigned to a name, such as `tuple[Clock, Recorder]`, by module and name.
        sources: where a name is imported from, dotted and with the name at its end, by module and name.
    """

    meanings: Mapping[tuple[str, str], ast.expr]
    sources: Mapping[tuple[str, str], str]

    @classmethod
    def of(cls, found: list[Module]) -> "Names":
        """Read the assignments and imports of all modules."""
        meanings = {(module.name, name): value for module in found for name, value in _assigned(module.tree)}
        sources = {
            (module.name, alias.asname or alias.name): f"{node.module}.{alias.name}"
            for module in found
            for node in module.nodes
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        return cls(meanings, sources)

    def alternatives(self, module: str, annotation: ast.expr) -> Iterator[ast.expr]:
        """Yield each type that `annotation`, written in `module`, lets in: of `Key | None` what `Key` stands for."""
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            annotation = ast.parse(annotation.value, mode="eval").body
        if isinstance(annotation, ast.BinOp):
            yield from self.alternatives(module, annotation.left)
            yield from self.alternatives(module, annotation.right)
            return
        home, name = self._home(module, dotted(annotation))
        if (home, name) in self.meanings:
            yield from self.alternatives(home, self.meanings[home, name])
        else:
            yield annotation

    def _home(self, module: str, name: str) -> tuple[str, str]:
        """Return the module in which a name is assigned, and its name there."""
        first, _, rest = name.partition(".")
        while (source := self.sources.get((module, first))) is not None:
            module, _, first = (f"{source}.{rest}" if rest else source).rpartition(".")
            rest = ""
        return module, first


def _assigned(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        if isinstance(value, ast.Name | ast.Attribute | ast.Subscript | ast.BinOp):
            yield from ((target.id, value) for target in targets if isinstance(target, ast.Name))


def violations(found: list[Module]) -> Iterator[str]:
    """Yield each module and function that is too large."""
    names = Names.of(found)
    for module in found:
        lines = len(module.text.splitlines())
        limit = TEST_MODULE_LINES if "tests" in module.path.parts else MODULE_LINES
        if lines > limit:
            yield f"{module.path}: {lines} lines, at most {limit}"
        for node in module.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                rows = () if "tests" in module.path.parts else _tuples(node, module.name, names)
                problems = [*_problems(node), *rows]
                yield from (f"{module.at(node)} {node.name}: {problem}" for problem in problems)


def _problems(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if lines > FUNCTION_LINES:
        yield f"{lines} lines, at most {FUNCTION_LINES}"
    positional = [*function.args.posonlyargs, *function.args.args]
    if positional and positional[0].arg in {"self", "cls"}:
        positional = positional[1:]
    arguments = len(positional) + len(function.args.kwonlyargs)
    if arguments > ARGUMENTS and function.name != "__init__":
        yield f"{arguments} arguments, at most {ARGUMENTS}"


def _tuples(function: ast.FunctionDef | ast.AsyncFunctionDef, module: str, names: Names) -> Iterator[str]:
    """Yield each parameter that is several arguments in a row without their names: `tuple[Clock, Recorder]`."""
    for parameter in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
        annotation = parameter.annotation
        if annotation is not None and any(map(_is_row, names.alternatives(module, annotation))):
            yield f"{parameter.arg} is a tuple of several things; give each a parameter, or the whole a class"


def _is_row(annotation: ast.expr) -> bool:
    if not (isinstance(annotation, ast.Subscript) and dotted(annotation.value).lower().endswith("tuple")):
        return False
    elements = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else []
    return len(elements) > 1 and not (isinstance(elements[-1], ast.Constant) and elements[-1].value is ...)


def test_everything_is_small() -> None:
    """Every module and function of ours, tests and scripts too."""
    assert list(violations(modules())) == []


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("sidecar/core/x.py", "X = 1\n" * 301),
        ("tests/unit/test_x.py", "X = 1\n" * 401),
        ("sidecar/rpc/x.py", "def long():\n" + "    x = 1\n" * 50),
        ("sidecar/rpc/x.py", "class A:\n    async def wide(self, a, b, c, d, /, e, *, f, g): ..."),
        ("sidecar/rpc/x.py", "def joined(outside: tuple[Clock, Recorder]): ..."),
        ("sidecar/rpc/x.py", "class A:\n    def __init__(self, *, times: 'tuple[int, int] | None'): ..."),
        ("sidecar/rpc/x.py", "Pair = tuple[int, int]\nMaybe: TypeAlias = Pair | None\ndef a(times: Maybe): ..."),
    ],
)
def test_what_is_too_large_is_caught(path: str, content: str, tmp_path: Path) -> None:
    """One line or argument too many, or arguments without names."""
    assert len(list(violations(modules(root=planted(tmp_path, {path: content}))))) == 1


@pytest.mark.parametrize(
    "content",
    [
        "from sidecar.core.keys import Key\ndef f(key: Key | None): ...",
        "from sidecar.core import keys\ndef f(key: 'keys.Key'): ...",
    ],
)
def test_a_tuple_behind_an_imported_name_is_caught(content: str, tmp_path: Path) -> None:
    """However the name is reached."""
    files = {"sidecar/core/keys.py": "Key = tuple[str, int]", "sidecar/rpc/x.py": content}
    (found,) = violations(modules(root=planted(tmp_path, files)))
    assert found.startswith("sidecar/rpc/x.py:2 f: key is a tuple")


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("sidecar/core/x.py", "X = 1\n" * 300),
        ("tests/unit/test_x.py", "X = 1\n" * 400),
        ("sidecar/rpc/x.py", "def long():\n" + "    x = 1\n" * 49),
        ("sidecar/rpc/x.py", "class A:\n    async def wide(self, a, b, c, d, /, e, *, f): ..."),
        ("sidecar/rpc/x.py", "class A:\n    def __init__(self, a, b, c, d, *, e, f, g): ..."),
        ("sidecar/rpc/x.py", "def alike(names: tuple[str, ...], pairs: list[tuple[str, int]]): ..."),
        ("sidecar/rpc/x.py", "Names = tuple[str, ...]\nPairs = list[tuple[str, int]]\ndef f(a: Names, b: Pairs): ..."),
    ],
)
def test_what_just_fits_is_let_through(path: str, content: str, tmp_path: Path) -> None:
    """Exactly at the limit."""
    assert list(violations(modules(root=planted(tmp_path, {path: content})))) == []
