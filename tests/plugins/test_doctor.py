"""`sidecar plugins doctor`: each installed plugin tried in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from sidecar.cli.plugins.doctor import Finding, Health, as_json, as_table, exit_code_of, findings
from sidecar.policy.entry_points import PluginSelection
from sidecar.policy.kinds import PluginKind
from tests.plugins.distributions import GOOD, SitePackages

SECONDS: Final = 240.0
"""Long, so that a busy machine makes no plugin look as if it hung."""
SOON: Final = 5.0
WORKS: Final = """
from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.specs import FlagBackendSpec

class Flags:
    async def fetch(self): ...
    async def changed(self): ...
    async def close(self): CLOSE

def made(settings):
    MAKE
    return Flags()

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, REQUIRED "additionalProperties": False}

@hookimpl
def sidecar_flag_backends():
    about = dict(name="made", contract="flag-backend/VERSION", summary="Made")
    return [FlagBackendSpec(**about, config_schema=SCHEMA, factory=made)]
"""


def plugin(**parts: str) -> str:
    """Return the code of a plugin that works, but for what is changed."""
    usual = {"CLOSE": "pass", "MAKE": "pass", "REQUIRED": "", "VERSION": "1"}
    code = WORKS
    for name, text in (usual | parts).items():
        code = code.replace(name, text)
    return code


def found(
    site: SitePackages,
    code: str,
    seconds: float = SECONDS,
    settings: Mapping[str, Any] | None = None,
    enabled: tuple[str, ...] = (),
) -> Finding:
    """Install one plugin and return what the doctor says of it."""
    site.install("flags-made", code, entry="made-entry")
    said = {PluginKind.FLAG_BACKEND: {"made": {"plugin": "made", **settings}}} if settings is not None else {}
    (row,) = findings(PluginSelection(enabled), said, seconds)
    return row


def test_a_plugin_that_works_is_healthy_and_runs_elsewhere(site: SitePackages) -> None:
    """Imported, made with its settings and closed; in this process it was not even imported."""
    row = found(site, plugin(), settings={"path": "x"}, enabled=("flags-made",))

    assert (row.plugin, row.state, row.enabled) == ("flags-made:made-entry", Health.HEALTHY, True)
    assert row.offers == ("flag-backend made",)
    assert site.ran("flags-made")
    assert "flags_made" not in sys.modules
    assert exit_code_of([row]) == 0


def test_a_plugin_that_nobody_enabled_is_tried_too(site: SitePackages) -> None:
    """That is what the doctor is for; the row says that it is not enabled."""
    row = found(site, "import no_such_module_at_all")

    assert (row.state, row.enabled) == (Health.BROKEN, False)
    assert "no_such_module_at_all" in row.problem
    assert "flags-made" in row.where
    assert row.remedy
    assert exit_code_of([row]) == 1


@pytest.mark.parametrize(
    ("code", "state", "told"),
    [
        ("import os; os._exit(3)", Health.CRASHED, "it ended its process with exit code 3 while it was being imported"),
        ("import os; os._exit(0)", Health.CRASHED, "it ended its process with exit code 0 while it was being imported"),
        ("raise SystemExit(4)", Health.BROKEN, "SystemExit: 4"),
        ("import ctypes; ctypes.string_at(0)", Health.CRASHED, "it was ended by SIGSEGV while it was being imported"),
        (plugin(MAKE="import os; os._exit(3)"), Health.CRASHED, "while it was being created (flag-backend `made`)"),
        (plugin(MAKE="raise ValueError('nobody there')"), Health.BROKEN, "ValueError: nobody there"),
        (plugin(MAKE="return 7"), Health.BROKEN, "which lacks fetch, changed, close"),
        (plugin(CLOSE="raise ValueError('stuck')"), Health.BROKEN, "closing it failed with ValueError: stuck"),
        (plugin(VERSION="9"), Health.INCOMPATIBLE, "this sidecar speaks flag-backend/1"),
        (plugin(MAKE="print('hello', flush=True)"), Health.PRINTS, "it writes to standard output: hello"),
        (GOOD.format(name="made"), Health.BROKEN, "its factory made a NoneType"),
        ("", Health.BROKEN, "implements no hook"),
    ],
)
def test_what_is_wrong_is_a_row_that_says_what_to_do(site: SitePackages, code: str, state: Health, told: str) -> None:
    """Whatever the plugin does to its process, there is an answer."""
    row = found(site, code)

    assert (row.state, exit_code_of([row])) == (state, 1)
    assert told in row.problem
    assert row.remedy
    assert row.where


@pytest.mark.parametrize(
    ("code", "step"),
    [
        ("import threading; threading.Event().wait()", "imported"),
        (plugin(MAKE="import threading; threading.Event().wait()"), "created (flag-backend `made`)"),
        (plugin(CLOSE="import asyncio; await asyncio.Event().wait()"), "closed (flag-backend `made`)"),
        (plugin(MAKE="import threading as t; t.Thread(target=t.Event().wait).start()"), "unloaded"),
    ],
)
def test_a_plugin_that_hangs_is_stopped(site: SitePackages, code: str, step: str) -> None:
    """At each step; the row names it."""
    row = found(site, code, SOON)

    assert row.state is Health.HANGS
    assert row.problem == f"it was still being {step} after {SOON:g} s"


def test_what_a_plugin_has_started_ends_with_it(site: SitePackages, tmp_path: Path) -> None:
    """A child of a plugin that hangs is killed too: it would hold the file locked otherwise."""
    file = tmp_path / "held"
    child = (
        f"import fcntl, time; f = open({str(file)!r}, 'w'); fcntl.flock(f, 2); print(1, flush=True); time.sleep(600)"
    )
    code = (
        "import subprocess, sys, threading\n"
        f"started = subprocess.Popen([sys.executable, '-c', {child!r}], stdout=subprocess.PIPE)\n"
        "started.stdout.readline()\n"
        "threading.Event().wait()\n"
    )

    assert found(site, code, SOON).state is Health.HANGS

    holding = subprocess.run(["flock", "--timeout", "20", str(file), "true"], check=False)  # freed as the child dies
    assert holding.returncode == 0


def test_a_plugin_that_needs_settings_and_has_none_is_no_problem(site: SitePackages) -> None:
    """Nobody has configured it; with settings that do not fit, that is another thing."""
    needing = plugin(REQUIRED='"required": ["path"],')

    assert found(site, needing).state is Health.UNCONFIGURED
    (wrong,) = findings(
        PluginSelection(), {PluginKind.FLAG_BACKEND: {"made": {"plugin": "made", "pth": "secret-value"}}}, SECONDS
    )
    assert wrong.state is Health.BROKEN
    assert "`pth` may mean `path`" in wrong.remedy
    assert "secret-value" not in as_json([wrong])


def test_a_plugin_that_is_enabled_and_not_installed_is_a_row(site: SitePackages) -> None:
    """With what was perhaps meant; the others are tried all the same."""
    site.install("flags-made", plugin(), entry="made-entry")

    missing, tried = findings(PluginSelection(("flags-mad",)), {}, SECONDS)

    assert (missing.plugin, missing.state, missing.enabled) == ("flags-mad", Health.MISSING, True)
    assert "did you mean `flags-made`?" in missing.remedy
    assert (tried.state, tried.enabled) == (Health.HEALTHY, False)
    assert exit_code_of([missing, tried]) == 1


def test_rows_are_text_or_json(site: SitePackages) -> None:
    """The problem stands under its row; JSON has all fields."""
    row = found(site, "import os; os._exit(3)")

    head, line, *told = as_table([row]).splitlines()
    (told_as_json,) = json.loads(as_json([row]))

    assert head.split() == ["PLUGIN", "VERSION", "ENABLED", "STATE", "OFFERS"]
    assert line.split() == ["flags-made:made-entry", "1.0", "no", "crashed", "-"]
    assert [part.split(":")[0].strip() for part in told[1:]] == ["where", "what to do"]
    assert told_as_json["state"] == "crashed"
    assert told_as_json["problem"] == row.problem


def test_the_command_tries_what_is_installed(tmp_path: Path) -> None:
    """As a process, with the plugins of this repository and one that ends whoever imports it."""
    SitePackages(tmp_path).install("flags-made", "import os; os._exit(3)", entry="made-entry")
    command = [sys.executable, "-m", "sidecar", "plugins", "doctor", "--timeout", "240", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, env=environment)

    states = {row["plugin"]: row["state"] for row in json.loads(done.stdout)}
    assert done.returncode == 1
    assert states.pop("flags-made:made-entry") == "crashed"
    assert states["sidecar-runner-langchain:langchain"] == "healthy"
    assert states["sidecar-lifecycle-examples:lifecycle-examples"] == "unconfigured"  # its audit sink needs a path
    assert set(states.values()) <= {"healthy", "unconfigured"}


def test_each_instance_of_a_plugin_is_made_with_its_own_settings(site: SitePackages) -> None:
    """The row names both; a wrong setting is reported with the section that has it."""
    site.install("flags-made", plugin(), entry="made-entry")
    sections = {"shop": {"plugin": "made", "path": "x"}, "rewards": {"plugin": "made", "path": "y"}}

    (right,) = findings(PluginSelection(()), {PluginKind.FLAG_BACKEND: sections}, SECONDS)
    sections["rewards"] = {"plugin": "made", "pth": "y"}
    (wrong,) = findings(PluginSelection(()), {PluginKind.FLAG_BACKEND: sections}, SECONDS)

    assert (right.state, right.offers) == (Health.HEALTHY, ("flag-backend shop", "flag-backend rewards"))
    assert (wrong.state, wrong.where) == (Health.BROKEN, "[flags.rewards]")
