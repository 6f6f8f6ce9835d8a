"""Writes `docs/hooks.md`, the reference of everything that a plugin implements, from `sidecar/policy`.

`--check` only compares.
"""

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from scripts.generate_protos import REPOSITORY
from scripts.generated_page import write_or_check
from sidecar.policy.specs import SPEC_TYPES

PAGE: Final = REPOSITORY / "docs/hooks.md"
CORE: Final = ("flag_states", "executing/tool_questions", "history/records")
MODULES: Final = (
    *sorted((REPOSITORY / "sidecar/policy").glob("*.py")),
    *(REPOSITORY / f"sidecar/core/{name}.py" for name in CORE),
)
"""Where the classes are that a plugin's author meets."""
OPTIONAL: Final[Mapping[str, tuple[str, ...]]] = {
    "FlagBackend": ("NamedFlagBackend", "FlagWriter"),
    "EpisodeMemory": ("UserEraser",),
}
"""By interface, what an object of it may implement besides."""
LABEL: Final = re.compile(r"^([\w, ]+): +(.*)", re.DOTALL)
SOURCES: Final = re.compile(r" ?Source: .+?\.(?=\s|$)| ?\((?:[A-Z]+\d?-[\w-]+(?:, )?)+\)")
"""Requirement ids, which are for readers of the code."""
HEAD: Final = """# Hooks

Made from `sidecar/policy` by `python -m scripts.document_hooks`; do not edit. [Plugins](plugins.md) explains how
plugins are installed and chosen, and `sidecar plugins new` writes one.

A hook returns descriptors. The factory of a descriptor makes the object, and the sidecar calls the object's methods.
The section [values](#values) has the classes that the methods take and return.
"""


class Documented(NamedTuple):
    """A docstring: what it says first, and what it says of each name."""

    text: str
    names: Mapping[str, str]


def page() -> str:
    """Return the text of the page."""
    defined = definitions()
    parts, used = [HEAD], dict[str, None]()
    for hook, spec in SPEC_TYPES.items():
        protocol = _protocol_of(_class(defined, spec.__name__))
        parts += [*_hook(defined[hook]), *_descriptor(defined, spec.__name__), *_object(defined, protocol)]
        used |= dict.fromkeys(_named_in(_class(defined, protocol), defined))
    parts += ["\n## Values\n", *_values(defined, used)]
    return "".join(parts)


def definitions() -> Mapping[str, ast.ClassDef | ast.FunctionDef]:
    """Return every class of the modules, and every hook, by name."""
    trees = {module.stem: ast.parse(module.read_text("utf-8")) for module in MODULES}
    hooks = {each.name: each for each in trees["hookspecs"].body if isinstance(each, ast.FunctionDef)}
    return {each.name: each for tree in trees.values() for each in tree.body if isinstance(each, ast.ClassDef)} | hooks


def documented(node: ast.AST) -> Documented:
    """Return what the docstring of a class or function says."""
    text = ast.get_docstring(node) if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) else ""
    told, names = [], dict[str, str]()
    for paragraph in re.split(r"\n\s*\n", text or ""):
        first, _, rest = paragraph.partition("\n")
        if first in {"Attributes:", "Args:"}:
            names |= _labelled(inspect.cleandoc(rest) if not rest.startswith(" ") else _dedented(rest))
        else:
            told.append(" ".join(paragraph.split()))
    return Documented(_plain(" ".join(told)), names)


def _dedented(text: str) -> str:
    lines = text.splitlines()
    margin = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    return "\n".join(line[margin:] for line in lines)


def _labelled(text: str) -> dict[str, str]:
    """Return what is said of each name: `name: text`, or `one, other: text`, continued by indented lines."""
    found = dict[str, str]()
    for entry in re.split(r"\n(?=\S)", text):
        match = LABEL.match(entry)
        if match is not None:
            found |= dict.fromkeys(match[1].split(", "), _plain(" ".join(match[2].split())))
    return found


def _plain(text: str) -> str:
    return SOURCES.sub("", text).replace("|", "\\|").strip()


def _class(defined: Mapping[str, ast.ClassDef | ast.FunctionDef], name: str) -> ast.ClassDef:
    found = defined[name]
    assert isinstance(found, ast.ClassDef)  # noqa: S101  a mistake of this script
    return found


def _hook(node: ast.AST) -> Iterator[str]:
    """Yield the section of a hook: its sentence, and a row for each of its labelled paragraphs."""
    assert isinstance(node, ast.FunctionDef)  # noqa: S101  a mistake of this script, too
    first, _, rest = (ast.get_docstring(node) or "").partition("\n\n")
    yield f"\n## `{node.name}`\n\n{' '.join(first.split())}\n\n| | |\n|---|---|\n"
    for label, text in _labelled(rest).items():
        yield f"| {label} | {text} |\n"


def _descriptor(defined: Mapping[str, ast.ClassDef | ast.FunctionDef], name: str) -> Iterator[str]:
    node = _class(defined, name)
    common = _class(defined, "PluginSpec")
    said = {**documented(common).names, **documented(node).names}
    yield f"\n**Descriptor `{name}`.** {documented(node).text}\n\n"
    yield from _fields([*_fields_of(common), *_fields_of(node)], said)


def _object(defined: Mapping[str, ast.ClassDef | ast.FunctionDef], name: str) -> Iterator[str]:
    yield from _methods(_class(defined, name), "Object")
    for each in OPTIONAL.get(name, ()):
        yield from _methods(_class(defined, each), "Optional interface")


def _methods(node: ast.ClassDef, title: str) -> Iterator[str]:
    yield f"\n**{title} `{node.name}`.** {documented(node).text}\n\n| method | what it does |\n|---|---|\n"
    for method in node.body:
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
            doc = documented(method)
            more = "".join(f" `{each}`: {text}" for each, text in doc.names.items())
            yield f"| `{_signature(method)}` | {doc.text}{more} |\n"


def _signature(method: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    arguments = [f"{each.arg}: {ast.unparse(each.annotation)}" for each in method.args.args if each.annotation]
    only = [f"{each.arg}: {ast.unparse(each.annotation)}" for each in method.args.kwonlyargs if each.annotation]
    listed = ", ".join([*arguments, *(["*", *only] if only else [])])
    if any(isinstance(each, ast.Name) and each.id == "property" for each in method.decorator_list):
        return f"{method.name}: {_returned(method)}"
    word = "async " if isinstance(method, ast.AsyncFunctionDef) else ""
    return f"{word}{method.name}({listed}) -> {_returned(method)}".replace("|", "\\|")


def _returned(method: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return ast.unparse(method.returns) if method.returns else "None"


def _values(defined: Mapping[str, ast.ClassDef | ast.FunctionDef], used: Mapping[str, None]) -> Iterator[str]:
    """Yield a section for each class that methods use, and for those that they are made of."""
    known = set(used)
    while more := {each for name in known for each in _named_in(_class(defined, name), defined)} - known:
        known |= more
    for name in sorted(known):
        node, doc = _class(defined, name), documented(_class(defined, name))
        yield f"\n### `{name}`\n\n{doc.text}\n"
        fields = _fields_of(node)
        if fields:
            yield "\n"
            yield from _fields(fields, doc.names)
        elif members := list(_members(node)):
            yield "\n| value | meaning |\n|---|---|\n"
            yield from (f"| `{value}` | {text} |\n" for value, text in members)


class Field(NamedTuple):
    """One annotated line of a class."""

    name: str
    type: str
    default: str | None


def _fields_of(node: ast.ClassDef) -> list[Field]:
    return [
        Field(each.target.id, ast.unparse(each.annotation), None if each.value is None else ast.unparse(each.value))
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        if "ClassVar" not in ast.unparse(each.annotation)
    ]


def _fields(fields: Sequence[Field], said: Mapping[str, str]) -> Iterator[str]:
    yield "| field | type | default | meaning |\n|---|---|---|---|\n"
    for each in fields:
        shown = "required" if each.default is None else f"`{_default(each.default)}`"
        kind = each.type.replace("|", "\\|")
        yield f"| `{each.name}` | `{kind}` | {shown} | {said.get(each.name, '')} |\n"


def _default(text: str) -> str:
    """Return a default as a reader writes it: that of a factory is what the factory makes."""
    made = re.search(r"default_factory=(?:lambda: )?(\w+)", text)
    if made:
        return {"dict": "{}", "MappingProxyType": "{}", "list": "[]"}.get(made[1], f"{made[1]}()")
    said = re.match(r"field\(default=([^,]+),", text)
    return said[1] if said else text


def _members(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Yield the members of an enum with the texts that follow them."""
    for each, following in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant):
            told = following.value if isinstance(following, ast.Expr) else None
            text = " ".join(str(told.value).split()) if isinstance(told, ast.Constant) else ""
            yield str(each.value.value), _plain(text)


def _protocol_of(spec: ast.ClassDef) -> str:
    """Return the name of what the factory of a descriptor makes."""
    (factory,) = [each for each in _fields_of(spec) if each.name == "factory"]
    return factory.type.rpartition(", ")[2].rstrip("]")


def _named_in(node: ast.ClassDef, defined: Mapping[str, ast.ClassDef | ast.FunctionDef]) -> list[str]:
    """Return the classes of the policy that annotations of a class name, itself and bases left out."""
    annotations: list[ast.expr | None] = []
    for each in ast.walk(node):
        if isinstance(each, ast.AnnAssign):
            annotations.append(each.annotation)
        elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            annotations += [each.returns, *(argument.annotation for argument in each.args.args)]
    names = {name.id for one in annotations if one for name in ast.walk(one) if isinstance(name, ast.Name)}
    aliases = {name for alias in names & ALIASES.keys() for name in ALIASES[alias]}
    found = (names | aliases) - {node.name}
    return sorted(each for each in found if isinstance(defined.get(each), ast.ClassDef))


def _aliases() -> Mapping[str, frozenset[str]]:
    """Return the unions that modules give a name, by that name."""
    found = dict[str, frozenset[str]]()
    for module in MODULES:
        for each in ast.parse(module.read_text("utf-8")).body:
            if isinstance(each, ast.Assign) and isinstance(each.value, ast.BinOp):
                names = frozenset(one.id for one in ast.walk(each.value) if isinstance(one, ast.Name))
                found |= {target.id: names for target in each.targets if isinstance(target, ast.Name)}
    return found


ALIASES: Final = _aliases()


def main() -> int:
    """Write the page, or say that it is not current."""
    return write_or_check(PAGE, page())


if __name__ == "__main__":
    sys.exit(main())
