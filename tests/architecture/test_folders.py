"""Modules and folders depend on each other in one direction, and a folder holds what one look takes in.

An import that only a type checker sees counts like any other: who reads a module has to know what it names.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.reading import REPOSITORY, Module, imported_names, modules, planted

SHIPPED: Final = ("sidecar", "proto", "clients", "plugins")
MODULES_OF_A_FOLDER: Final = 20
"""Beside its `__init__`."""

PAGE: Final = "docs/architecture.md"
OPERATIONS: Final = "sidecar/operations"
SPAN: Final = re.compile(r"`([^`\n]+)`")
PATH: Final = re.compile(r"[\w.{},-]+(?:/[\w.{},-]+)+/?|\w+\.py")

Graph = Mapping[str, set[str]]


def shipped(root: Path | None = None) -> list[Module]:
    """Return the modules that users run, without the tests that lie among them."""
    found = modules(*SHIPPED) if root is None else modules(*SHIPPED, root=root)
    return [module for module in found if "tests" not in module.path.parts]


def cycles(found: list[Module]) -> Iterator[str]:
    """Yield each set of modules that import each other, however indirectly, and each such set of folders."""
    by_name = {_imported_as(module): module for module in found}
    of_modules: dict[str, set[str]] = {module.name: set() for module in found}
    of_folders: dict[str, set[str]] = {str(module.path.parent): set() for module in found}
    for module in found:
        for name, _ in imported_names(module):
            imported = by_name.get(name) or by_name.get(name.rpartition(".")[0])
            if imported is not None:
                of_modules[module.name].add(imported.name)
                if imported.path.parent != module.path.parent:
                    of_folders[str(module.path.parent)].add(str(imported.path.parent))
    for graph in (of_modules, of_folders):
        yield from (", ".join(sorted(cycle)) for cycle in _cycles(graph))


def crowded(found: Iterable[Module]) -> Iterator[str]:
    """Yield each folder with too many modules side by side."""
    counts: dict[Path, int] = {}
    for module in found:
        if module.path.name != "__init__.py":
            counts[module.path.parent] = counts.get(module.path.parent, 0) + 1
    for folder, count in counts.items():
        if count > MODULES_OF_A_FOLDER:
            yield f"{folder}: {count} modules, at most {MODULES_OF_A_FOLDER}; give what belongs together a folder"


def wrong_on_the_page(root: Path = REPOSITORY) -> Iterator[str]:
    """Yield each path on the page of the architecture that is not there, and each folder of operations not on it.

    Paths are whole, or below `sidecar`; a bare file name is neither.
    """
    text = (root / PAGE).read_text(encoding="utf-8")
    named = {span.rstrip("/") for span in SPAN.findall(text) if PATH.fullmatch(span)}
    for path in sorted(named):
        if not (root / path).exists() and not (root / "sidecar" / path).exists():
            yield f"{PAGE}: there is no {path}"
    for package in sorted((root / OPERATIONS).rglob("__init__.py")):
        folder = package.parent.relative_to(root / "sidecar").as_posix()
        if not {folder, f"sidecar/{folder}"} & named:
            yield f"{PAGE}: does not say what {folder} holds"


def _imported_as(module: Module) -> str:
    """Return its name without the folders of its project: `clients/python/subagents_client/x.py` has two."""
    return module.name.split(".", 2)[-1] if module.path.parts[0] in {"clients", "plugins"} else module.name


def _cycles(graph: Graph) -> Iterator[frozenset[str]]:
    reached = {node: _reached(graph, node) for node in graph}
    seen: set[str] = set()
    for node in graph:
        cycle = frozenset(other for other in reached[node] if node in reached[other])
        if cycle and node not in seen:
            seen |= cycle
            yield cycle


def _reached(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    to_look_at = [start]
    while to_look_at:
        news = graph[to_look_at.pop()] - found
        found |= news
        to_look_at += news
    return found


def test_nothing_imports_in_a_circle() -> None:
    """Neither modules nor folders, of the sidecar, the clients and the plugins."""
    assert list(cycles(shipped())) == []


def test_no_folder_is_crowded() -> None:
    """Each folder of the sidecar, the clients and the plugins."""
    assert list(crowded(shipped())) == []


@pytest.mark.parametrize(
    ("files", "problems"),
    [
        ({"sidecar/core/a.py": "from sidecar.core.b import B", "sidecar/core/b.py": "import sidecar.core.a"}, 1),
        (
            {
                "sidecar/core/a.py": "from sidecar.core.b import B",
                "sidecar/core/b.py": "if TYPE_CHECKING:\n    from sidecar.core.c import C",
                "sidecar/core/c.py": "def late():\n    from sidecar.core import a",
            },
            1,
        ),
        (
            {
                "sidecar/core/one/a.py": "from sidecar.core.two.b import B",
                "sidecar/core/two/b.py": "",
                "sidecar/core/two/c.py": "from sidecar.core.one import d",
                "sidecar/core/one/d.py": "",
            },
            1,
        ),
        ({"clients/python/subagents_client/a.py": "from subagents_client.a import B"}, 1),
    ],
)
def test_a_circle_is_caught(files: dict[str, str], problems: int, tmp_path: Path) -> None:
    """Two modules, three with imports for types and inside a function, two folders, a module with itself."""
    assert len(list(cycles(shipped(planted(tmp_path, files))))) == problems


def test_what_goes_one_way_is_let_through(tmp_path: Path) -> None:
    """A diamond, below one folder and across folders."""
    files = {
        "sidecar/core/one/a.py": "from sidecar.core.one import b, c",
        "sidecar/core/one/b.py": "from sidecar.core.two import d",
        "sidecar/core/one/c.py": "from sidecar.core.two.d import D",
        "sidecar/core/two/d.py": "",
    }
    assert list(cycles(shipped(planted(tmp_path, files)))) == []


@pytest.mark.parametrize(("count", "problems"), [(20, 0), (21, 1)])
def test_a_crowd_begins_at_twenty_one(count: int, problems: int, tmp_path: Path) -> None:
    """The `__init__` and what lies in folders below do not count."""
    files = {f"sidecar/core/m{number}.py": "" for number in range(count)}
    root = planted(tmp_path, {**files, "sidecar/core/__init__.py": "", "sidecar/core/one/m.py": ""})
    assert len(list(crowded(shipped(root)))) == problems


def test_the_page_of_the_architecture_shows_the_folders_that_are_there() -> None:
    """Every path on it exists, and every folder of operations is on it."""
    assert list(wrong_on_the_page()) == []


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("`sidecar/operations` `operations/turn`", 0),
        ("`sidecar/operations` `sidecar/operations/turn/` `operations/turn/__init__.py`", 0),
        ("`sidecar/operations` `operations/turn` `operations/gone`", 1),
        ("`sidecar/operations` `operations/turn` `bind_turn.py`", 1),
        ("`sidecar/operations`", 1),
    ],
)
def test_a_page_that_is_not_true_is_caught(text: str, problems: int, tmp_path: Path) -> None:
    """A path that is gone, a bare name, a folder that is left out."""
    files = {PAGE: text, "sidecar/operations/__init__.py": "", "sidecar/operations/turn/__init__.py": ""}
    assert len(list(wrong_on_the_page(planted(tmp_path, files)))) == problems
