"""Development on macOS: what is shipped uses nothing that only Linux has, and imports and works without it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.names_of_platforms import only_on_linux, uses_of_linux
from tests.architecture.reading import REPOSITORY, modules, planted

SHIPPED: Final = ("sidecar", "proto/python/subagents_*", "clients/*/subagents_*", "plugins/*/sidecar_*", "examples")
ONLY_LINUX: Final = (
    *("SO_PEERCRED", "SCM_CREDENTIALS", "SO_BINDTODEVICE", "TCP_USER_TIMEOUT", "MSG_ERRQUEUE", "epoll(", "/proc/"),
    *(
        "prctl",
        "inotify",
        "memfd_create",
        "pidfd_open",
        "eventfd",
        "timerfd",
        "fdatasync",
        "posix_fallocate",
        "prlimit",
    ),
    *("sched_getaffinity", "sched_setaffinity", "O_TMPFILE", "O_DIRECT |", "O_PATH", "CLOCK_BOOTTIME", "getrandom"),
)
DEVELOPED: Final = (
    *("sidecar", "clients", "plugins", "examples", "scripts"),
    *("proto/python/subagents_errors", "proto/python/subagents_legacy", "proto/python/subagents_tls"),
)
WITH_FALLBACK: Final = {"sidecar/adapters/system/closed_memory.py": ["prctl"]}
MEASURES: Final = ("scripts/bench.py:", "scripts/benchmark/serving.py:", "scripts/growth.py:")
"""Benchmarks pin processes to cores and read `/proc`; CONTRIBUTING says that they need Linux."""
WITHOUT: Final = """
import os, resource, select, signal, socket, sys, time

GONE = {
    os: "eventfd memfd_create pidfd_open fdatasync posix_fallocate posix_fadvise sched_getaffinity sched_setaffinity "
        "getrandom splice O_TMPFILE O_DIRECT O_PATH getresuid setresuid".split(),
    select: ["epoll"],
    socket: "SO_PEERCRED SCM_CREDENTIALS SO_BINDTODEVICE AF_NETLINK AF_PACKET AF_VSOCK SOCK_CLOEXEC SOCK_NONBLOCK "
            "TCP_USER_TIMEOUT".split(),
    resource: "prlimit RLIMIT_NICE RLIMIT_OFILE RLIMIT_SIGPENDING RLIMIT_MSGQUEUE".split(),
    signal: "SIGPWR SIGRTMIN SIGRTMAX pidfd_send_signal SIGSTKFLT".split(),
    time: ["CLOCK_BOOTTIME"],
}
import asyncio, importlib, multiprocessing, pkgutil, selectors, subprocess  # the standard library finds out by itself
import apsw, cryptography, grpc, httpx, jsonschema_rs, msgspec, orjson, uvloop, yaml  # so do other packages
for module, names in GONE.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
sys.platform = "darwin"
"""
IMPORTS: Final = """
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    for found in pkgutil.walk_packages(package.__path__, name + "."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
print("all")
"""
WORKS: Final = """
from sidecar.composition.process import _set_process_limits
from tests.support.harness import running_sidecar_for_tests

async def turn():
    async with running_sidecar_for_tests() as sidecar:
        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop", "ask_rewards")
        print(*reply.outcomes)

_set_process_limits()
asyncio.run(turn())
"""


def only_linux(text: str) -> Iterator[str]:
    """Yield each name that only Linux has."""
    yield from (name for name in ONLY_LINUX if name in text)


def shipped() -> Iterator[Path]:
    """Yield every module that is shipped, and the examples."""
    for pattern in SHIPPED:
        for folder in REPOSITORY.glob(pattern):
            yield from folder.rglob("*.py")


def test_no_shipped_module_names_what_only_linux_has() -> None:
    """A use needs a fallback: look it up with `getattr`, and list it here."""
    found = {str(file.relative_to(REPOSITORY)): list(only_linux(file.read_text("utf-8"))) for file in shipped()}
    assert len(found) > 500
    assert {file: names for file, names in found.items() if names} == WITH_FALLBACK


@pytest.mark.parametrize(
    "line", ["peer = sock.getsockopt(SOL_SOCKET, SO_PEERCRED)", "Path('/proc/self/fd')", "os.fdatasync(handle)"]
)
def test_a_call_that_only_linux_has_is_found(line: str) -> None:
    """The check can fail."""
    assert list(only_linux(line))


def test_no_module_takes_a_name_that_the_standard_library_has_on_linux_alone() -> None:
    """Read from the stubs of the standard library, for macOS; tests and benchmarks may need Linux, and say so."""
    assert {"epoll", "EPOLLIN"} <= only_on_linux("select")
    assert {"memfd_create", "pidfd_open", "sched_getaffinity"} <= only_on_linux("os")
    assert not {"fork", "kill", "SEEK_SET"} & only_on_linux("os")
    ours = [module for module in modules(*DEVELOPED) if "tests" not in module.path.parts]
    assert len(ours) > 600
    assert [use for use in uses_of_linux(ours) if not use.startswith(MEASURES)] == []


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.sched_getaffinity(0)",
        "import select as s\ns.epoll()",
        "from socket import SO_PEERCRED",
        "import signal\nsignal.signal(signal.SIGPWR, print)",
    ],
)
def test_a_name_that_only_linux_has_is_found(text: str, tmp_path: Path) -> None:
    """Under another name, and imported by itself, too; with `getattr` it has a fallback."""
    fallback = "import os\ngetattr(os, 'eventfd', None)\nos.getpid()"
    root = planted(tmp_path, {"sidecar/a.py": text, "sidecar/b.py": fallback})
    (use,) = uses_of_linux(modules(root=root))
    assert use.startswith("sidecar/a.py:")


def run_without_linux(program: str, *arguments: str) -> str:
    """Run a program in an interpreter from which all that only Linux has was taken."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITHOUT + program, *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_of_sidecar_and_sdk_imports_without_linux() -> None:
    """With what macOS lacks taken from the standard library, and `sys.platform` as there."""
    plugins = ("sidecar_audit_webhook", "sidecar_gates_http", "sidecar_gates_manifest")
    packages = ("sidecar", "subagents_client", "subagents_errors", *plugins)
    assert run_without_linux(IMPORTS, *packages) == "all\n"


def test_a_turn_works_without_linux() -> None:
    """Sockets, listeners, limits of the process, a dispatch of two calls."""
    assert run_without_linux(WORKS) == "SUCCEEDED SUCCEEDED\n"
