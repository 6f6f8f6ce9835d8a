"""The command line as a process: what a person types and what comes back."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sidecar.command_line import ASYNCIO_PART

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.system


def sidecar(*arguments: str) -> tuple[int, str, str]:
    """Run `python -m sidecar`; return exit code, output and errors."""
    command = [sys.executable, "-m", "sidecar", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.real_start
def test_the_version_is_told() -> None:
    """One line."""
    code, out, _ = sidecar("--version")
    assert (code, out.split()[0], len(out.split())) == (0, "sidecar", 2)


@pytest.mark.real_start
def test_the_example_definitions_are_valid() -> None:
    """`sidecar validate`, through the whole command line."""
    code, out, _ = sidecar("validate", "examples/config")
    assert (code, out.splitlines()[-1].startswith("valid: ")) == (0, True)


def test_plugins_are_listed_by_the_defaults_where_no_settings_are_named() -> None:
    """Those that a sidecar has whose settings choose none."""
    _, out, _ = sidecar("plugins", "list", "--json")
    active = {row["name"] for row in json.loads(out) if row["state"] == "active"}
    assert active == {"log", "rest", "grpc", "embedded", "store", "platform"}


def test_plugins_are_listed_as_the_settings_use_them() -> None:
    """Without settings: as the defaults do; the runner is active, the other flag backend available."""
    code, out, _ = sidecar("plugins", "list", "--config", "examples/sidecar.toml")
    states = {line.split()[0]: line for line in out.splitlines()[1:]}
    assert code == 0
    assert "active" in states["grpc"]
    assert "active" in states["embedded"]
    assert "available" in states["file"]


@pytest.mark.parametrize("command", ["serve", "migrate"])
def test_settings_that_cannot_be_used_are_told_on_standard_error(command: str, tmp_path: Path) -> None:
    """Exit code 78 and one line for each problem; no traceback."""
    file = tmp_path / "sidecar.toml"
    file.write_text("[dispatch]\nfan_out_cap = 0\n")
    code, out, errors = sidecar(command, "--config", str(file))
    assert (code, out) == (78, "")
    assert errors == (
        "the settings cannot be used:\n"
        f"  {file}: definitions.path: is required (or set SIDECAR__DEFINITIONS__PATH)\n"
        f"  {file}: dispatch.fan_out_cap: must be at least 1\n"
    )


OF_PYTHON = ("_distutils_hack", "_cython_", "sitecustomize", "__editable__")
LOADED = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
from sidecar.entry import main
main()
"""
COMMON = "annotated_doc msgspec shellingham subagents_errors typer typing_extensions"
READING = "annotated_doc cython_runtime google grpc grpc_health grpc_reflection grpc_tools shellingham subagents typer"
CALLING = f"{COMMON} {READING}"
CHECKING = f"{COMMON} cython_runtime jsonschema_rs yaml"
DRAWN = "annotated_doc attr markdown_it mdurl pygments rich shellingham typer"
LOADS = {
    "serve --config /nowhere": (39, "msgspec subagents_errors typing_extensions"),
    "health --config /nowhere": (43, COMMON),
    "validate examples/config": (74, CHECKING),
    "codeowners examples/config": (45, CHECKING),
    "init travel --dir /nowhere": (13, "annotated_doc shellingham typer"),
    "doctor --config /nowhere": (43, COMMON),
    "gate ask shop --simulate --config /nowhere": (46, COMMON),
    "validate-refs /nowhere": (48, COMMON),
    "subagent list --target unix:/nowhere": (29, READING),
    "subagent ramp shop 5 --reason x --target unix:/nowhere": (56, CALLING),
    "subagent kill shop --reason x --target unix:/nowhere": (39, READING),
    "subagent decommission list --target unix:/nowhere": (46, f"{READING} msgspec typing_extensions"),
    "end-turn x --reason y --target unix:/nowhere": (37, READING),
    "score t d c --name x --value 1 --target unix:/nowhere": (32, READING),
    "status --target unix:/nowhere": (37, READING),
    "drain --reason x --target unix:/nowhere": (37, READING),
    "subagent show shop --target unix:/nowhere": (29, READING),
    "completion bash": (9, "annotated_doc shellingham typer"),
    "turns --target unix:/nowhere": (19, f"{READING} msgspec typing_extensions"),
    "turn x --target unix:/nowhere": (26, CALLING),
    "replay x --config /nowhere": (44, COMMON),
    "history export x --principal y --config /nowhere": (47, COMMON),
    "migrate --config /nowhere": (45, COMMON),
    "backup --config /nowhere x": (45, COMMON),
    "projection rebuild --config /nowhere": (45, COMMON),
    "verify-log --config /nowhere": (228, f"{COMMON} _cffi_backend _openssl apsw cryptography"),
    "token --help": (17, f"{COMMON} {DRAWN}"),
    "serve --help": (8, DRAWN),
    "--version": (8, "annotated_doc shellingham typer"),
    "--help": (113, f"{COMMON} {DRAWN}"),
}
"""By command: how many of our modules it has loaded when it begins its work, and which packages of others."""


@pytest.mark.parametrize("command", LOADS)
def test_a_command_loads_what_it_needs_and_little_else(command: str) -> None:
    """Importing is most of what a command costs. None loads pydantic, and only help and terminals need rich."""
    program = [sys.executable, "-c", LOADED, *command.split()]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)
    names = set(json.loads(done.stderr.splitlines()[-1])) - {ASYNCIO_PART}  # what stands in its place is of this module
    loaded = {name: name.split(".")[0] for name in names}
    own, packages = LOADS[command]
    assert not [name for name in loaded if name.startswith("grpc.aio.")]
    others = {top for top in loaded.values() if top not in {"sidecar", "__main__"} and not top.startswith(OF_PYTHON)}
    assert others - sys.stdlib_module_names <= set(packages.split())
    assert len([top for top in loaded.values() if top == "sidecar"]) <= own


DEFERRED = """
import sys
from sidecar.command_line import ASYNCIO_PART, DeferredModule
stub = sys.modules[ASYNCIO_PART] = DeferredModule(ASYNCIO_PART)
import grpc
early = [name for name in sys.modules if name.startswith("grpc.aio.")]
channel = grpc.aio.insecure_channel
from grpc.aio import AioRpcError
print(early, channel.__module__, AioRpcError.__module__, sys.modules[ASYNCIO_PART] is grpc.aio is not stub)
"""


def test_the_part_of_grpc_for_asyncio_is_there_once_a_command_uses_it() -> None:
    """As an attribute and in an import; until then nothing of it is loaded."""
    program = [sys.executable, "-c", DEFERRED]
    done = subprocess.run(program, capture_output=True, text=True, timeout=30, check=False, cwd=ROOT)
    assert done.stdout == "[] grpc.aio._channel grpc.aio._call True\n", done.stderr
