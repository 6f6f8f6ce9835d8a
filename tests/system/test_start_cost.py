"""What a start of `sidecar serve` loads until it listens, counted: importing is most of what a start costs."""

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.support.sidecar_process import place, started

pytestmark = pytest.mark.system

IMPORTED: Final = re.compile(r"import time:\s+\d+ \|\s+\d+ \|\s*([\w.]+)$")
OWN_MODULES: Final = 498
"""The last ones are `adapters.http_client` and `adapters.token_exchange`, whose settings two connectors have,
`core.waiting_calls`, `composition.keys.key_files` with the keys of tokens, `core.dispatching.harmless_text`, which
every answer passes, `core.executing.tool_questions` (every connector may answer with a question),
`adapters.system.closed_memory`, and those of which each stands for the same lines in two databases:
`core.listing.row_columns`, `adapters.idle_episodes`, `adapters.statements` and `adapters.rollout_tables`."""
ALL_MODULES: Final = 845
"""The number on Python 3.11; the standard library differs a little from version to version."""
DATACLASSES: Final = 15
"""Each takes the time of a small module to make; a `msgspec.Struct` takes a hundredth of that."""
UNUSED: Final = """
typer click rich pydantic httpcore httpx h11 certifi anyio opentelemetry prometheus_client asyncpg jwt rapidfuzz
grpc_reflection.v1alpha zipfile importlib.metadata pluggy difflib unicodedata http
cryptography.hazmat.primitives.serialization google.protobuf.json_format
sidecar.cli.app sidecar.composition.operators sidecar.rpc.lifecycle_servicer sidecar.rpc.admin_servicer
sidecar.adapters.record_memory sidecar.adapters.rollout_memory sidecar.adapters.record_postgresql
sidecar.adapters.rollout_postgresql sidecar.adapters.connector_rest.connector sidecar.adapters.connector_grpc.connector
sidecar.policy.registration sidecar.core.definitions.advice sidecar.adapters.runner_grpc.runner
sidecar.rpc.reflection sidecar.rpc.ops_wire sidecar.observability.otlp.exporters sidecar.observability.spans
""".split()
"""What nothing needs that listens with a record in SQLite and no operators, plugins or collector."""


OF_DATA: Final = ("endpoint", "domain_type", "enricher_id", "version", "echoes_nonce", "payload_schema", "timeout")


def without_data_services(folder: Path) -> None:
    """Make every tool of the definitions one that its agent runs itself: else a connector is made right afterwards."""
    file = folder / "config" / "agent_config.yaml"
    said = yaml.safe_load(file.read_text(encoding="utf-8"))
    for tool in said["tools"]:
        for name in OF_DATA:
            tool.pop(name, None)
    file.write_text(yaml.safe_dump(said), encoding="utf-8")


async def loaded(folder: Path) -> list[str]:
    """Return the modules that a start has loaded when it says that it listens."""
    async with started(folder, python=["-X", "importtime"]) as sidecar:
        await sidecar.event("sidecar.listening")
    said = next(number for number, line in enumerate(sidecar.lines) if '"sidecar.listening"' in line)
    return [found[1] for line in sidecar.lines[:said] if (found := IMPORTED.match(line.rstrip()))]


def dataclasses_in(modules: list[str]) -> Iterator[str]:
    """Yield each of our dataclasses in these modules."""
    for name in modules:
        spec = importlib.util.find_spec(name) if name.startswith("sidecar") else None
        if spec is not None and spec.origin is not None:
            tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
            classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
            for each in classes:
                if any(ast.unparse(one).startswith("dataclass") for one in each.decorator_list):
                    yield f"{name}.{each.name}"


async def test_a_start_loads_what_its_settings_need_and_little_else() -> None:
    """So many modules, none of those that nothing needs, and so many dataclasses."""
    with place() as folder:
        without_data_services(folder)
        modules = await loaded(folder)
    own = [name for name in modules if name.split(".")[0] == "sidecar"]

    assert [name for name in modules if any(f"{name}.".startswith(f"{unused}.") for unused in UNUSED)] == []
    assert len(own) <= OWN_MODULES
    assert len(modules) <= ALL_MODULES, len(modules)
    made = sorted(dataclasses_in(own))
    assert len(made) <= DATACLASSES, made
