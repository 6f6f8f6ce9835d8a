"""The public names of the clients: what applications import, and which parameters they pass.

    python -m scripts.public_names           check
    python -m scripts.public_names --add     add new names to the list

`clients/public_names.txt` lists the names of the last release, one a line. If a name of the list no longer exists, the
check fails, because an application that uses it stops working. `--add` adds names and removes none.

A Python name is a class, function or constant that a package exports, an attribute, a value of an enum, or a parameter.
A TypeScript name is an export of the package, or a member of an exported class or interface. Names that TypeScript
takes from generated code are guarded with the protos.
"""

import argparse
import ast
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import is_dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

from scripts.generate_protos import REPOSITORY

RELEASED: Final = REPOSITORY / "clients/public_names.txt"
PACKAGES: Final = (
    "subagents_client",
    "subagents_client.coalescing",
    "subagents_client.runner",
    "subagents_errors",
    "subagents_langchain",
    "subagents_openai_agents",
)
INTERNAL: Final = frozenset(
    f"subagents_langchain.ActiveTurn.{name}"
    for name in (
        *("asked", "asked_again", "binding", "can_go_on", "dispatched", "finished", "gatherings", "keep", "kept"),
        *("leave", "made", "may_dispatch", "missing_intents", "recorded", "resumed", "spawn"),
    )
)
"""What only the middleware uses; `ActiveTurn` says so."""
OURS: Final = tuple(sorted({name.partition(".")[0] for name in PACKAGES}))
TYPESCRIPT: Final = REPOSITORY / "clients/typescript/src"
REQUIRED: Final = " required)"
EXPORT: Final = re.compile(r'^export (?:\* from|\{(?P<names>[^}]*)\} from) "\./(?P<file>[\w/]+)\.js";$', re.MULTILINE)
DECLARED: Final = r"^export (?:abstract )?(?:class|interface) {name}\b[^\n]*\{{\n(?P<body>.*?)^\}}"
MEMBER: Final = re.compile(
    r"^  (?!private|protected|constructor)(?:(?:readonly|static|async|get) |\*)*(?P<name>[A-Za-z]\w*)\??[(<:]",
    re.MULTILINE,
)


def released_names(path: Path = RELEASED) -> frozenset[str]:
    """Return the names of the last release."""
    return frozenset(path.read_text(encoding="utf-8").split("\n")) - {""}


def current_names() -> frozenset[str]:
    """Return the names that the packages have now."""
    python = [name for package in PACKAGES for name in names_of_package(package, import_module(package))]
    return frozenset([*python, *names_of_typescript(TYPESCRIPT)])


def problems(released: frozenset[str], current: frozenset[str]) -> Sequence[str]:
    """Return what an application of the last release could not use, and what the list lacks."""
    gone = [f"{name} is gone: keep it, and mark it as deprecated" for name in sorted(released - current)]
    added = sorted(current - released)
    needed = [
        f"{name}: a new parameter of a released function needs a default"
        for name in added
        if name.endswith(REQUIRED) and name.partition("(")[0] in released
    ]
    new = [f"{name} is new: add it with `python -m scripts.public_names --add`" for name in added]
    return [*gone, *(needed or new)]


def names_of_package(package: str, module: Any) -> Iterator[str]:
    """Return the exported names of a Python package, with their members and parameters."""
    for name in module.__all__:
        value = getattr(module, name)
        yield f"{package}.{name}"
        if inspect.isclass(value):
            yield from _members(f"{package}.{name}", value)
        elif inspect.isfunction(value):
            yield from _parameters(f"{package}.{name}", value)


def _members(prefix: str, kind: type) -> Iterator[str]:
    """Return attributes, methods, their parameters and values of a class, also of its bases in our packages."""
    if issubclass(kind, Enum):
        yield from (f"{prefix}.{member.name} = {member.value!r}" for member in kind)
    own = [base for base in kind.__mro__ if base.__module__.partition(".")[0] in OURS]
    attributes = {name for base in own for name in _attributes(base) if not name.startswith("_")}
    for name in sorted(attributes):
        if f"{prefix}.{name}" in INTERNAL:
            continue
        yield f"{prefix}.{name}"
        method = inspect.getattr_static(kind, name, None)
        if isinstance(method, staticmethod | classmethod):
            method = method.__func__
        if inspect.isfunction(method):
            yield from _parameters(f"{prefix}.{name}", method)
    if any("__init__" in vars(base) for base in own) and not issubclass(kind, Enum):
        constructor = list(_parameters(prefix, kind.__init__))
        # Objects that hold the connection are made by the client, never by an application.
        if any(name.startswith(f"{prefix}(wire ") for name in constructor):
            return
        # The fields of a dataclass are its attributes: only those without a default matter to its constructor.
        yield from (name for name in constructor if not is_dataclass(kind) or name.endswith(REQUIRED))


def _attributes(kind: type) -> Iterator[str]:
    """Return what a class has in its body, and what its constructor assigns."""
    # A slot descriptor of a dataclass and its field have one name; values of enums are listed with what they hold.
    yield from (name for name in vars(kind) if not (issubclass(kind, Enum) and name in kind.__members__))
    yield from vars(kind).get("__annotations__", ())
    constructor = vars(kind).get("__init__")
    if not inspect.isfunction(constructor) or constructor.__code__.co_filename == "<string>":
        return
    for node in ast.walk(ast.parse(dedent(inspect.getsource(constructor)))):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
            yield from [node.attr] if node.value.id == "self" else []


def _parameters(prefix: str, function: Any) -> Iterator[str]:
    """Return one line for each parameter that a caller passes; the place counts if it may be passed by place."""
    for place, each in enumerate(inspect.signature(function).parameters.values()):
        if each.name in {"self", "cls"} and place == 0:
            continue
        by_place = each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}
        optional = each.default is not each.empty or each.kind in {each.VAR_POSITIONAL, each.VAR_KEYWORD}
        how = f"{each.name} {f'at {place}' if by_place else 'by name'}"
        yield f"{prefix}({how})" if optional else f"{prefix}({how}{REQUIRED}"


def names_of_typescript(source: Path) -> Iterator[str]:
    """Return the exports of `index.ts`, with the members of classes and interfaces."""
    exports = list(EXPORT.finditer((source / "index.ts").read_text(encoding="utf-8")))
    for export in exports:
        file, names = export["file"], export["names"]
        if names is None:
            yield f"typescript: * of {file}"
            continue
        for name in filter(None, (each.strip().removeprefix("type ") for each in names.split(","))):
            yield f"typescript: {name}"
            if not file.startswith("generated/"):
                text = (source / f"{file}.ts").read_text(encoding="utf-8")
                yield from (f"typescript: {name}.{member}" for member in _typescript_members(name, text))


def _typescript_members(name: str, text: str) -> Sequence[str]:
    found = re.search(DECLARED.format(name=name), text, re.MULTILINE | re.DOTALL)
    return sorted({member["name"] for member in MEMBER.finditer(found["body"])}) if found else ()


def _written(names: Iterable[str]) -> str:
    return "".join(f"{name}\n" for name in sorted(names))


def main() -> int:
    """Check, or add new names to the list."""
    parser = argparse.ArgumentParser(description="Check the public names of the clients.")
    parser.add_argument("--add", action="store_true", help=f"add new names to {RELEASED.name}")
    if parser.parse_args().add:
        RELEASED.write_text(_written(released_names() | current_names()), encoding="utf-8")
    found = problems(released_names(), current_names())
    print("\n".join(found))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
