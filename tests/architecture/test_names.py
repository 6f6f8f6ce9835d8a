"""Things are named for what they do: no `utils`, `helpers`, `common`, `manager`, no `_v2`."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.reading import Module, modules, planted

EMPTY_MODULE_NAME: Final = re.compile(r"(^|_)(utils?|helpers?|commons?|managers?|misc|stuff)(_|$)|_v\d+$")
EMPTY_CLASS_NAME: Final = re.compile(r"(Utils?|Helpers?|Manager|V\d+)$")


def violations(found: list[Module]) -> Iterator[str]:
    """Yield each name that says nothing."""
    for module in found:
        if empty := [part for part in module.path.with_suffix("").parts if EMPTY_MODULE_NAME.search(part)]:
            yield f"{module.path}: {', '.join(empty)} does not say what it does"
        for node in module.nodes:
            if isinstance(node, ast.ClassDef) and EMPTY_CLASS_NAME.search(node.name):
                yield f"{module.at(node)} class {node.name} does not say what it does"


def test_every_name_says_what_it_does() -> None:
    """Modules, folders and classes of ours."""
    assert list(violations(modules())) == []


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("sidecar/rpc/utils.py", ""),
        ("sidecar/common/x.py", ""),
        ("sidecar/rpc/event_queue_v2.py", ""),
        ("sidecar/rpc/x.py", "class SessionManager: ..."),
        ("tests/support/test_helpers.py", ""),
    ],
)
def test_an_empty_name_is_caught(path: str, content: str, tmp_path: Path) -> None:
    """One of each."""
    assert len(list(violations(modules(root=planted(tmp_path, {path: content}))))) == 1
