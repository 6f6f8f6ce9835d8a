"""core <- policy <- operations <- {adapters, observability, rpc, cli} <- composition <- command_line.

What may be imported beyond the arrow: the outer four may read the settings, and everything may read the names of
`sidecar.observability.names`, a module of constants. Two folders of `sidecar/adapters` do
not know each other, but for what several of them stand on: `migrations`, and the SQLite engine.
Plugins know `sidecar.policy` and `sidecar.core`, clients and examples nothing of the sidecar.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.reading import Module, imported_names, modules, planted

INNER: Final = frozenset({"core", "policy", "operations"})
OUTER: Final = frozenset({"core", "policy", "operations", "settings"})
MAY_IMPORT: Final[Mapping[str, frozenset[str]]] = {
    "core": frozenset(),
    "policy": frozenset({"core"}),
    "operations": frozenset({"core", "policy"}),
    "settings": frozenset({"core", "policy"}),
    "adapters": OUTER,
    "observability": OUTER,
    "rpc": OUTER,
    "cli": OUTER,
    "composition": OUTER | {"adapters", "observability", "rpc", "cli"},
    "command_line": OUTER | {"adapters", "observability", "rpc", "cli", "composition"},
    "entry": frozenset({"cli", "command_line"}),
    "__main__": frozenset({"entry"}),
}
FOR_ALL: Final = ("sidecar.observability.names", "sidecar.rpc.errors")
"""Modules of constants, and the one table between our errors and gRPC's, which the client side of an adapter reads
backwards. Neither is open to the inner three."""
FOR_ADAPTERS: Final = (
    "sidecar.adapters.http_client",
    "sidecar.adapters.idle_episodes",
    "sidecar.adapters.memory_tables",
    "sidecar.adapters.migrations",
    "sidecar.adapters.postgresql",
    "sidecar.adapters.rollout_tables",
    "sidecar.adapters.sqlite",
    "sidecar.adapters.statements",
    "sidecar.adapters.switch_interval",
    "sidecar.adapters.token_exchange",
)
"""What several adapters stand on; they hold no port of their own."""
THIRD_PARTY: Final[Mapping[str, frozenset[str]]] = {
    "core": frozenset({"msgspec", "jsonschema_rs", "subagents_errors", "subagents_legacy"}),
    "policy": frozenset({"msgspec", "jsonschema_rs", "subagents_errors", "pluggy"}),
    "operations": frozenset({"msgspec", "jsonschema_rs", "subagents_errors"}),
}
"""An allow-list: whatever does I/O (grpc, google, subagents, httpx, apsw, opentelemetry, yaml, ...) is not on it."""
OUTSIDE: Final[Mapping[str, tuple[str, ...]]] = {
    "plugins": ("sidecar.policy", "sidecar.core"),
    "clients": (),
    "examples": (),
    "subagents_errors": (),
    "subagents_legacy": (),
}
"""What code beside the sidecar may import of it."""


def violations(found: list[Module]) -> Iterator[str]:
    """Yield each import that goes the wrong way."""
    for module in found:
        for name, node in imported_names(module):
            if reason := _problem(module.name.split("."), name):
                yield f"{module.at(node)} {reason}"


def _problem(importer: list[str], name: str) -> str | None:
    if name.startswith("."):
        return f"imports {name} relatively; write the whole path"
    if importer[0] in OUTSIDE:
        allowed = OUTSIDE[importer[0]]
        if _is_of("sidecar", name) and not any(_is_of(one, name) for one in allowed):
            return f"imports {name}; {importer[0]} may import {' and '.join(allowed) or 'nothing'} of the sidecar"
        return None
    return _problem_inside(importer, name.split(".")) if importer[0] == "sidecar" and len(importer) > 1 else None


def _problem_inside(importer: list[str], imported: list[str]) -> str | None:
    layer = importer[1]
    name = ".".join(imported)
    if imported[0] == "sidecar":
        if len(imported) == 1 or (layer not in INNER and any(_is_of(one, name) for one in FOR_ALL)):
            return None
        if layer == imported[1] == "adapters":
            known = importer[2:3] == imported[2:3] or any(_is_of(one, name) for one in FOR_ADAPTERS)
            return None if known else f"imports {name}; adapters do not know each other"
        if imported[1] != layer and imported[1] not in MAY_IMPORT.get(layer, frozenset()):
            return f"imports {name}; {layer} may import {', '.join(sorted(MAY_IMPORT.get(layer, ()))) or 'nothing'}"
    elif layer in THIRD_PARTY and imported[0] not in THIRD_PARTY[layer] and not _is_standard(imported[0]):
        return f"imports {name}; {layer} may use {', '.join(sorted(THIRD_PARTY[layer]))} and the standard library"
    return None


def _is_of(package: str, name: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def _is_standard(package: str) -> bool:
    return package in sys.stdlib_module_names


def test_every_import_of_the_repository_flows_one_way() -> None:
    """The whole tree."""
    assert list(violations(modules())) == []


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("sidecar/core/x.py", "from sidecar.policy.protocols import Runner"),
        ("sidecar/core/x.py", "import httpx"),
        ("sidecar/core/x.py", "from sidecar.observability import names"),
        ("sidecar/core/x.py", "def late():\n    from sidecar.operations import ports"),
        ("sidecar/policy/x.py", "from sidecar.operations.ports import Clock"),
        ("sidecar/policy/x.py", "from google.protobuf import message"),
        ("sidecar/operations/x.py", "from sidecar.rpc.errors import STATUS_OF"),
        ("sidecar/operations/x.py", "import opentelemetry.trace"),
        ("sidecar/operations/x.py", "from subagents.dispatch.v1 import dispatch_pb2"),
        ("sidecar/operations/x.py", "from sidecar.settings import Settings"),
        ("sidecar/operations/x.py", "from . import ports"),
        ("sidecar/adapters/one/x.py", "from sidecar.rpc import translate"),
        ("sidecar/adapters/one/x.py", "from sidecar.adapters.two import pool"),
        ("sidecar/rpc/x.py", "import sidecar.adapters.one"),
        ("sidecar/cli/x.py", "from sidecar.composition import running_sidecar"),
        ("sidecar/observability/x.py", "from sidecar.rpc import server"),
        ("sidecar/composition.py", "from sidecar.command_line import main"),
        ("plugins/flags_x/flags_x/backend.py", "from sidecar.operations.ports import Clock"),
        ("clients/python/subagents_client/x.py", "from sidecar.core.identifiers import TurnId"),
        ("examples/demo/x.py", "import sidecar"),
    ],
)
def test_an_import_against_the_flow_is_caught(path: str, line: str, tmp_path: Path) -> None:
    """One offender for each arrow."""
    assert len(list(violations(modules(root=planted(tmp_path, {path: line}))))) == 1


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("sidecar/core/x.py", "import re\nfrom sidecar.core.errors import Refused\nimport msgspec"),
        ("sidecar/policy/x.py", "import pluggy\nfrom sidecar.core import identifiers"),
        ("sidecar/adapters/one/x.py", "from sidecar.adapters.one import pool\nimport httpx"),
        ("sidecar/adapters/record_one/x.py", "from sidecar.adapters.postgresql import Connections"),
        ("sidecar/rpc/x.py", "from sidecar.observability import names\nfrom sidecar.settings import Settings"),
        ("sidecar/command_line.py", "from sidecar.composition import running_sidecar"),
        ("plugins/flags_x/flags_x/backend.py", "from sidecar.policy.protocols import FlagBackend"),
        ("examples/demo/x.py", "import subagents_client"),
    ],
)
def test_an_import_along_the_flow_is_let_through(path: str, line: str, tmp_path: Path) -> None:
    """What each layer is meant to use."""
    assert list(violations(modules(root=planted(tmp_path, {path: line})))) == []
