"""Finds places where the result depends on the order of a set.

Read from syntax and annotations, without running a type checker: an expression counts as a set if it is written as
one, is made by `set(...)` or a set operator, or is a name or attribute that is annotated or assigned as one.
"""

import ast
from collections.abc import Iterable, Iterator
from typing import Final

from tests.architecture.reading import dotted

SET_TYPES: Final = frozenset({"set", "frozenset", "Set", "AbstractSet", "MutableSet", "KeysView"})
SET_METHODS: Final = frozenset({"union", "intersection", "difference", "symmetric_difference"})
SET_OPERATORS: Final = (ast.BitAnd, ast.BitOr, ast.Sub, ast.BitXor)
ORDERING: Final = frozenset({"list", "tuple", "iter", "enumerate", "zip", "map", "filter", "reversed", "join"})
"""Calls whose result takes the order of their argument. `sorted`, `len`, `min`, `sum`, `set` do not."""
ORDER_FREE: Final = frozenset({"sorted", "set", "frozenset", "len", "min", "max", "any", "all"})

Function = ast.FunctionDef | ast.AsyncFunctionDef


def set_orders(tree: ast.Module, attributes: frozenset[str]) -> Iterator[ast.AST]:
    """Yield each node of `tree` that takes the order of a set.

    Args:
        tree: the module to look at.
        attributes: names of attributes that are sets, see `set_attributes`.
    """
    scopes = [tree, *(node for node in ast.walk(tree) if isinstance(node, Function))]
    for scope in scopes:
        sets = _Sets(_set_names(scope), attributes)
        for node in _own_nodes(scope):
            if any(sets.holds(one) for one in _ordered_by(node, sets)):
                yield node


class _Sets:
    """What is known to be a set within one function."""

    def __init__(self, names: frozenset[str], attributes: frozenset[str]) -> None:
        self.names = names
        self.attributes = attributes

    def holds(self, node: ast.expr) -> bool:
        """Whether the expression is a set."""
        if isinstance(node, ast.Name):
            return node.id in self.names
        if isinstance(node, ast.Attribute):
            return node.attr in self.attributes
        if isinstance(node, ast.BinOp) and isinstance(node.op, SET_OPERATORS):
            return any(self.holds(side) or _is_keys(side) for side in (node.left, node.right))
        return _is_written_as_set(node) or self._is_made_from_set(node)

    def _is_made_from_set(self, node: ast.expr) -> bool:
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in SET_METHODS
            and self.holds(node.func.value)
        )


def _ordered_by(node: ast.AST, sets: _Sets) -> Iterator[ast.expr]:
    """Yield the expressions whose order `node` takes."""
    if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        yield node.iter
    elif isinstance(node, ast.Starred):
        yield node.value
    elif isinstance(node, ast.Call):
        called = node.func
        if dotted(called).rpartition(".")[2] in ORDERING:
            yield from node.args
        if isinstance(called, ast.Attribute) and called.attr == "pop" and not node.args and sets.holds(called.value):
            yield called.value


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield what stands in a module or function, without what stands in a function inside it.

    A comprehension that makes a set, or is only sorted, counted or tested, has no order to lose: its `for` is left out.
    """
    pending = list(ast.iter_child_nodes(scope))
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, Function):
            continue
        made: list[ast.GeneratorExp | ast.ListComp | ast.SetComp] = []
        if isinstance(node, ast.SetComp):
            made = [node]
        elif isinstance(node, ast.Call) and dotted(node.func) in ORDER_FREE:
            made = [one for one in node.args if isinstance(one, ast.GeneratorExp | ast.ListComp)]
        loops = [loop for one in made for loop in one.generators]
        pending += (part for loop in loops for part in ast.iter_child_nodes(loop))
        pending += (one.elt for one in made)
        if not isinstance(node, ast.SetComp):
            pending += (child for child in ast.iter_child_nodes(node) if child not in made)


def _is_written_as_set(node: ast.expr) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    return isinstance(node, ast.Call) and dotted(node.func) in {"set", "frozenset"}


def _is_keys(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"keys", "items"}


def _is_set_type(annotation: ast.expr | None) -> bool:
    if isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    if isinstance(annotation, ast.BinOp):
        return _is_set_type(annotation.left) or _is_set_type(annotation.right)
    return annotation is not None and dotted(annotation).rpartition(".")[2] in SET_TYPES


def _set_names(scope: ast.AST) -> frozenset[str]:
    """Return which names are sets in a module or function."""
    names: set[str] = set()
    if isinstance(scope, Function):
        arguments = scope.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        names.update(one.arg for one in every if _is_set_type(one.annotation))
    for node in _own_nodes(scope):
        names.update(target.id for target in _targets(node) if isinstance(target, ast.Name))
    return frozenset(names)


def set_attributes(everything: Iterable[ast.AST]) -> frozenset[str]:
    """Return the attribute names that stand for a set in every class that declares them.

    Args:
        everything: all nodes of all modules.
    """
    as_set: set[str] = set()
    otherwise: set[str] = set()
    for node in everything:
        as_set.update(target.attr for target in _targets(node) if isinstance(target, ast.Attribute))
        if isinstance(node, ast.ClassDef):
            for line in node.body:
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                    (as_set if _is_set_type(line.annotation) else otherwise).add(line.target.id)
    return frozenset(as_set - otherwise)


def _targets(node: ast.AST) -> list[ast.expr]:
    """Return what an assignment makes a set, if it does."""
    if isinstance(node, ast.AnnAssign) and _is_set_type(node.annotation):
        return [node.target]
    if isinstance(node, ast.Assign) and _is_written_as_set(node.value):
        return node.targets
    return []
