"""All names of metrics, spans, events and attributes stand in four modules of observability, `names.py` first.

A literal elsewhere in the sidecar breaks the rule if it is one of those names (names with a dot, which nothing else
uses), if it looks like one, or if it is handed to a function that makes or marks a metric, span or event.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.reading import Module, dotted, modules, planted

NAMES: Final = Path("sidecar/observability/names.py")
NAMES_ARE_IN: Final = frozenset(
    {
        NAMES,
        *(NAMES.with_name(name) for name in ("span_names.py", "call_names.py", "event_names.py")),
    }
)
LOOKS_LIKE_ONE: Final = re.compile(
    r"(ps6|subagent|gen_ai|routing|sidecar\.(dispatch|turn|child|gateway|surface))\.[a-z0-9_.]+\Z"
)
MAKERS: Final = frozenset(
    "Counter Gauge Histogram add_event create_counter create_gauge create_histogram create_observable_counter "
    "create_observable_gauge create_observable_up_down_counter create_up_down_counter set_attribute "
    "start_as_current_span start_span".split()
)
"""Functions whose first argument, or `name`, is such a name."""
MARKERS: Final = frozenset({"attributes", "labels"})
"""Keyword arguments whose keys are such names, for whatever is called; so are those of `set_attributes`."""


def violations(found: list[Module]) -> Iterator[str]:
    """Yield each name that stands outside the modules of names, or the absence of the first."""
    names = frozenset[str]().union(*(_names(module) for module in found if module.path in NAMES_ARE_IN))
    if not names:
        yield f"{NAMES} is missing or empty"
        return
    for module in found:
        if module.path in NAMES_ARE_IN:
            continue
        for node in module.nodes:
            literals = [node] if _is_name(node, names) else []
            if isinstance(node, ast.Call):
                literals += (one for one in _handed_over(node) if not _is_name(one, names))
            yield from (f"{module.at(one)} {ast.unparse(one)} belongs into {NAMES}" for one in literals)


def _names(module: Module) -> frozenset[str]:
    values = (node.value for node in module.tree.body if isinstance(node, ast.Assign | ast.AnnAssign))
    constants = (value.value for value in values if isinstance(value, ast.Constant))
    return frozenset(value for value in constants if isinstance(value, str))


def _is_text(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_name(node: ast.AST, names: frozenset[str]) -> bool:
    if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        return False
    return ("." in node.value and node.value in names) or bool(LOOKS_LIKE_ONE.match(node.value))


def _handed_over(call: ast.Call) -> Iterator[ast.expr]:
    """Yield the literals that a call uses as names."""
    called = dotted(call.func).rpartition(".")[2]
    if called in MAKERS:
        yield from filter(_is_text, [*call.args[:1], *(word.value for word in call.keywords if word.arg == "name")])
    dicts = [word.value for word in call.keywords if word.arg in MARKERS]
    dicts += call.args[:1] if called == "set_attributes" else []
    for one in dicts:
        if isinstance(one, ast.Dict):
            yield from (key for key in one.keys if key is not None and _is_text(key))


def test_every_name_stands_in_a_module_of_names() -> None:
    """The whole sidecar."""
    assert list(violations(modules("sidecar"))) == []


GOOD: Final = 'MISMATCHES: Final = "ps6.envelope.principal_mismatch_total"\n"""Withheld."""\nCHILD = "child"\n'


@pytest.mark.parametrize(
    "line",
    [
        "X = 'ps6.envelope.principal_mismatch_total'",
        "X = 'subagent.lifecycle.something_new_total'",
        "def f(meter): meter.create_counter('calls')",
        "def f(meter): meter.create_histogram(name='seconds', unit='s')",
        "def f(tracer):\n    with tracer.start_as_current_span('dispatch'): pass",
        "def f(span): span.set_attribute('cap', 3)",
        "def f(span): span.set_attributes({'cap': 3})",
        "def f(counter): counter.add(1, attributes={'outcome': 'failed'})",
    ],
)
def test_a_name_elsewhere_is_caught(line: str, tmp_path: Path) -> None:
    """Known, like a known one, or handed to a maker or marker."""
    tree = planted(tmp_path, {str(NAMES): GOOD, "sidecar/rpc/x.py": line})
    assert len(list(violations(modules(root=tree)))) == 1


def test_words_that_are_no_names_are_let_through(tmp_path: Path) -> None:
    """A label without a dot is a plain word elsewhere, and a proto's name is not a metric."""
    lines = (
        "X = {'child': 'subagents.dispatch.v1.DispatchService'}\ndef f(meter, names): meter.create_counter(names.X)\n"
    )
    tree = planted(tmp_path, {str(NAMES): GOOD, "sidecar/rpc/x.py": lines})
    assert list(violations(modules(root=tree))) == []


def test_the_absence_of_the_module_is_caught(tmp_path: Path) -> None:
    """Else the rule would hold for want of names."""
    tree = planted(tmp_path, {"sidecar/rpc/x.py": "X = 1\n"})
    assert list(violations(modules(root=tree))) == [f"{NAMES} is missing or empty"]
