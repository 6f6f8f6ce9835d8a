"""Finds the places that change the state of a turn past the methods of its classes.

Names are looked at, not types: an attribute counts as the turn's if one of its classes has one of that name, and the
module can get hold of an object of them. What else has such a name is told apart by an annotation or by `self`.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.architecture.reading import Module, dotted, imported_names

HOME: Final = "sidecar.operations.turn.state"
"""The one place that changes what its classes hold."""
REACH: Final = ("sidecar.operations.turn", "sidecar.operations.process")
"""Who imports from here can get hold of a turn."""
CLASSES: Final = frozenset(
    {
        "AttemptFrames",
        "Calls",
        "BudgetLedger",
        "Child",
        "ChildFrames",
        "DataUse",
        "Delegation",
        "Listeners",
        "LiveDispatch",
        "Ownership",
        "ProgressReports",
        "RequestedEffect",
        "RequestedEffects",
        "TurnEnding",
        "TurnSlotQueues",
        "TurnState",
    }
)
ALIASES: Final = frozenset({"Turn", "Errand", "Any", "object"})
"""Annotations that stand for one of them, or for anything."""
MUTATORS: Final = frozenset(
    {
        *{"add", "append", "clear", "difference_update", "discard", "extend", "insert", "intersection_update", "pop"},
        *{"popitem", "remove", "reverse", "setdefault", "sort", "symmetric_difference_update", "update"},
        *{"__delitem__", "__setitem__", "settle", "settle_at"},
    }
)
"""Methods that change a container, or an `Ending`."""
LOG: Final = ".log"
LOG_MOVES: Final = frozenset(
    {
        *{"attempt", "closed", "created", "failed", "go_on_after", "integrated", "integration_failed", "left_out"},
        *{"noted", "repeatable", "started", "waiting_for_merge"},
    }
)
"""Methods of a child's log that move it; who reads it asks for its state."""
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def owned_attributes(found: Iterable[Module]) -> frozenset[str]:
    """Return the names of everything that the classes hold: fields, and what is assigned to `self`."""
    return frozenset(
        name
        for module in found
        if _is_home(module)
        for node in module.nodes
        if isinstance(node, ast.ClassDef) and node.name in CLASSES
        for name in _held(node)
    )


def classes_at_home(found: Iterable[Module]) -> frozenset[str]:
    """Return the names of all classes of their home."""
    return frozenset(
        node.name for module in found if _is_home(module) for node in module.nodes if isinstance(node, ast.ClassDef)
    )


def changes(found: Sequence[Module]) -> Iterator[str]:
    """Yield each place outside their home that changes what one of the classes holds, or adds to them by a subclass."""
    owned = owned_attributes(found)
    for module in found:
        if not _is_home(module) and any(_is_below(name, REACH) for name, _ in imported_names(module)):
            yield from sorted(_Reader(module, owned).violations())


@dataclass(frozen=True, slots=True)
class _Scope:
    """What the names in a function stand for.

    Attributes:
        strangers: names that are annotated as something else.
        aliases: names of what a class holds, e.g. `late` after `late = turn.late`.
    """

    strangers: frozenset[str]
    aliases: Mapping[str, str]


class _Reader:
    """Reads one module."""

    def __init__(self, module: Module, owned: frozenset[str]) -> None:
        self._module, self._owned = module, owned

    def violations(self) -> Iterator[str]:
        """Yield each."""
        yield from self._read(self._module.tree, _Scope(frozenset(), {}))

    def _read(self, node: ast.AST, scope: _Scope) -> Iterator[str]:
        if isinstance(node, Function | ast.Module):
            scope = self._scope_of(node, scope)
        for what in self._problems(node, scope):
            yield f"{self._module.at(node)} {what}"
        for child in ast.iter_child_nodes(node):
            yield from self._read(child, scope)

    def _problems(self, node: ast.AST, scope: _Scope) -> Iterator[str]:
        match node:
            case ast.Attribute(ctx=ast.Store() | ast.Del()) if self._owner(node, scope):
                yield f"changes {dotted(node)}"
            case ast.Subscript(ctx=ast.Store() | ast.Del()) if held := self._holder(node.value, scope):
                yield f"changes {held}[...]"
            case ast.Attribute(attr=method) if method in MUTATORS and (held := self._holder(node.value, scope)):
                yield f"changes {held} by {method}"
            case ast.Attribute(attr=method) if method in LOG_MOVES:
                held = self._holder(node.value, scope)
                if held.endswith(LOG):
                    yield f"moves {held} by {method}"
            case ast.AugAssign(target=ast.Name(name)) if name in scope.aliases:
                yield f"changes {scope.aliases[name]} by {type(node.op).__name__}"
            case ast.Call(func=function, args=[_, ast.Constant(value), *_]) if value in self._owned:
                if dotted(function).rpartition(".")[2] in {"setattr", "delattr", "__setattr__", "__delattr__"}:
                    yield f"changes {value} by name"
            case ast.ClassDef(bases=bases) if inherited := CLASSES & {dotted(each) for each in bases}:
                yield f"is made of {', '.join(sorted(inherited))}"

    def _owner(self, node: ast.Attribute, scope: _Scope) -> bool:
        """Say whether an attribute may be one of a class of the turn's."""
        if isinstance(node.value, ast.Name) and (node.value.id in {"self", "cls"} or node.value.id in scope.strangers):
            return False
        return node.attr in self._owned

    def _holder(self, node: ast.expr, scope: _Scope) -> str:
        """Return what a class of the turn's holds, if that is what an expression gives; else nothing."""
        if isinstance(node, ast.Name):
            return scope.aliases.get(node.id, "")
        if isinstance(node, ast.Attribute):
            return dotted(node) if self._owner(node, scope) else ""
        return next(filter(None, (self._holder(each, scope) for each in _parts(node))), "")

    def _scope_of(self, node: Function | ast.Module, outer: _Scope) -> _Scope:
        """Return the names of a function, with those around it."""
        arguments = _arguments(node)
        strangers = outer.strangers - {each.arg for each in arguments} | {
            each.arg for each in arguments if each.annotation is not None and not _may_be_owned(each.annotation)
        }
        scope = _Scope(frozenset(strangers), dict(outer.aliases))
        aliases = {name: held for name, value in _bound(node) if (held := self._holder(value, scope))}
        return _Scope(scope.strangers, {**scope.aliases, **aliases})


def _parts(node: ast.expr) -> Sequence[ast.expr]:
    """Return the expressions that one gives, or takes something out of."""
    match node:
        case ast.Subscript(value=value) | ast.NamedExpr(value=value):
            return (value,)
        case ast.Call(func=ast.Attribute(value, "get" | "values" | "items")):
            return (value,)
        case ast.BoolOp(values=values):
            return values
        case ast.IfExp(body=body, orelse=orelse):
            return (body, orelse)
        case _:
            return ()


def _arguments(node: Function | ast.Module) -> Sequence[ast.arg]:
    if isinstance(node, ast.Module):
        return ()
    return (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)


def _bound(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield what is assigned to names below a node, but not in the functions in it."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                continue
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from _pairs(target, value)
            case ast.AnnAssign(target=ast.Name(name), value=ast.expr() as value):
                yield name, value
            case ast.NamedExpr(target=ast.Name(name), value=value):
                yield name, value
            case _:
                pass
        yield from _bound(child)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
        for each, its in zip(target.elts, value.elts, strict=False):
            yield from _pairs(each, its)


def _may_be_owned(annotation: ast.expr) -> bool:
    """Say whether an annotation stands for one of the classes, or may."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    names = {
        dotted(node).rpartition(".")[2] for node in ast.walk(annotation) if isinstance(node, ast.Name | ast.Attribute)
    }
    return bool(names & (CLASSES | ALIASES))


def _held(node: ast.ClassDef) -> Iterator[str]:
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store) and dotted(each.value) == "self":
            yield each.attr


def _is_home(module: Module) -> bool:
    return _is_below(module.name, (HOME,))


def _is_below(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)
