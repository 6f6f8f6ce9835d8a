"""Every setting says what it means, and nothing else reads the environment."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

from sidecar.settings.section import Section, setting
from tests.architecture.reading import Module, dotted, modules, planted

ENVIRONMENT = frozenset({"os.environ", "os.getenv", "os.environb", "environ", "getenv"})
MAY_READ_ENVIRONMENT = ("sidecar.settings", "sidecar.command_line", "sidecar.entry")


def violations(section: type[Section], path: str = "settings") -> Iterator[str]:
    """Yield each setting and section below `section` that is not documented."""
    if not (section.__doc__ or "").strip() or section.__doc__ == Section.__doc__:
        yield f"{path}: the section has no docstring"
    for name, field in section.SETTINGS.items():
        if not (field.description or "").strip().endswith("."):
            yield f"{path}.{name}: no description (a sentence, with its full stop)"
        for inner in _sections(field.kind):
            yield from violations(inner, f"{path}.{name}")


def _sections(annotation: object) -> Iterator[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for part in get_args(annotation):
        yield from _sections(part)


def readers_of_environment(found: list[Module]) -> Iterator[str]:
    """Yield each place that reads the environment beside the settings.

    `PATH` may be read and handed on by what starts another program: it says where programs are, not how we run.
    """
    for module in found:
        if ".".join(module.name.split(".")[:2]) not in MAY_READ_ENVIRONMENT:
            handing_on = [id(owner) for node in module.nodes for owner in _reads_path(node)]
            for node in module.nodes:
                named = isinstance(node, ast.Attribute | ast.Name) and dotted(node) in ENVIRONMENT
                if named and id(node) not in handing_on:
                    yield f"{module.at(node)} reads the environment"


def _reads_path(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the `os.environ` of an `os.environ.get("PATH", ...)`."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="get"), args=[ast.Constant(value="PATH"), *_]):
            yield owner
        case _:
            return


def test_every_setting_is_documented() -> None:
    """From the root of the settings down."""
    assert list(violations(import_module("sidecar.settings").Settings)) == []


def test_only_the_settings_read_the_environment() -> None:
    """So that the settings are the whole truth about how a process runs."""
    assert list(readers_of_environment(modules("sidecar"))) == []


class Documented(Section):
    """A section as it should be."""

    cap: int = setting(ge=1, description="Most calls at once.")


class _Undocumented(Section):
    cap: int = 1


class Wide(Section):
    """Says half of what it has to."""

    cap: int = setting(1, description="Most calls at once")


class Root(Section):
    """Holds the other sections, also inside a mapping."""

    good: Documented = setting(description="Good.")
    many: dict[str, _Undocumented] = setting(description="By name.")
    wide: Wide | None = setting(None, description="Optional.")


def test_undocumented_settings_are_caught() -> None:
    """At any depth."""
    assert list(violations(Root)) == [
        "settings.many: the section has no docstring",
        "settings.many.cap: no description (a sentence, with its full stop)",
        "settings.wide.cap: no description (a sentence, with its full stop)",
    ]


def test_handing_on_where_programs_are_is_let_through(tmp_path: Path) -> None:
    """For a child process."""
    tree = planted(tmp_path, {"sidecar/rpc/x.py": "import os\nX = {'PATH': os.environ.get('PATH', os.defpath)}"})
    assert list(readers_of_environment(modules(root=tree))) == []


@pytest.mark.parametrize("line", ["import os\nX = os.environ['X']", "from os import getenv\nX = getenv('X')"])
def test_a_reader_of_the_environment_is_caught(line: str, tmp_path: Path) -> None:
    """By either door."""
    assert len(list(readers_of_environment(modules(root=planted(tmp_path, {"sidecar/rpc/x.py": line}))))) == 1
