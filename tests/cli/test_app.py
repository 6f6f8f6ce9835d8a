"""The command line as a process: what a person types and what comes back."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.system


def sidecar(*arguments: str) -> tuple[int, str, str]:
    """Run `python -m sidecar`; return exit code, output and errors."""
    command = [sys.executable, "-m", "sidecar", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, cwd=ROOT)
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
        f"  {file}: dispatch.fan_out_cap: Input should be greater than or equal to 1\n"
    )


LOADED = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
from sidecar.entry import main
main()
"""
OF_A_SERVER = "uvloop sidecar.composition sidecar.observability sidecar.rpc sidecar.operations sidecar.adapters"
OF_OTHERS = {
    "validate examples/config": "grpc httpcore uvloop sidecar.composition sidecar.operations sidecar.cli.subagent",
    "subagent list --target unix:/nowhere": f"yaml cryptography jsonschema_rs sidecar.settings {OF_A_SERVER}",
    "turns --target unix:/nowhere": f"yaml cryptography jsonschema_rs sidecar.settings {OF_A_SERVER}",
    "serve --config /nowhere": "grpc rich sidecar.cli.subagent sidecar.cli.record sidecar.composition",
    "serve --help": "grpc yaml cryptography sidecar.core sidecar.policy sidecar.settings sidecar.composition",
}
"""By command: what it has no use for."""


@pytest.mark.parametrize("command", OF_OTHERS)
def test_a_command_does_not_load_what_it_has_no_use_for(command: str) -> None:
    """Importing is most of what a command costs; of what only other commands need, it has nothing in the end."""
    program = [sys.executable, "-c", LOADED, *command.split()]
    done = subprocess.run(program, capture_output=True, text=True, timeout=30, check=False, cwd=ROOT)
    loaded = json.loads(done.stderr.splitlines()[-1])
    unused = OF_OTHERS[command].split()
    assert "sidecar.cli.app" in loaded
    assert [name for name in loaded if any(f"{name}.".startswith(f"{package}.") for package in unused)] == []


def test_a_sidecar_that_serves_loads_no_other_command_and_no_adapter_that_is_not_chosen() -> None:
    """What a server starts with: no screen, no telemetry, no PostgreSQL, nothing of the commands beside `serve`."""
    program = (
        "import json, sys, sidecar.command_line, sidecar.composition.process; print(json.dumps(list(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = json.loads(done.stdout)
    unused = ("rich", "httpx", "opentelemetry", "prometheus_client", "asyncpg", "jwt", "rapidfuzz")
    assert [name for name in loaded if name.split(".")[0] in unused] == []
    assert [name for name in loaded if name.startswith("sidecar.cli")] == ["sidecar.cli", "sidecar.cli.app"]
