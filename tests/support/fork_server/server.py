"""`python -m tests.support.fork_server.server <descriptor> <filler>`: forks, on request, what was asked for."""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NoReturn

from tests.support.fork_server import popen
from tests.support.fork_server.asking import MOST_PASSED, Asked, decoded
from tests.support.fork_server.becoming import become
from tests.support.fork_server.refusals import refusal
from tests.support.fork_server.shown import FILLED, Room, own_room

WARM: Final = (
    *("sidecar", "sidecar_gates_manifest", "sidecar_runner_langchain", "subagents_client", "subagents_evals"),
    *("subagents_loadgen", "examples", "scripts.benchmark", "tests.support.simulation"),
)
"""Our packages whose every module is imported beforehand; the examples bring LangChain along."""
WARM_TOO: Final = ("asyncpg", "uvicorn", "typer.rich_utils")
"""What they import only when they run."""
NOT_WARM: Final = ("__main__", "plugin_templates", "locust_user", "dbos_turns", "restate_turns")
"""Locust patches the standard library of its process; the last two need what only the environment of the bench has."""
LONGEST: Final = 1 << 20
IGNORED: Final = (signal.SIGINT, signal.SIGTERM)
"""They are meant for the processes of a group or terminal; a server ends when nobody can ask it any more."""


@dataclass(frozen=True, slots=True)
class Server:
    """What stays the same for all that is asked for.

    Attributes:
        environment: that it was started with.
        room: for what `/proc` shows of a copy.
        handlers: what a process does about the signals that the server ignores.
    """

    environment: dict[str, str]
    room: Room
    handlers: Sequence[tuple[signal.Signals, object]]

    def serve(self, asking: socket.socket) -> tuple[Asked, list[int]]:
        """Fork what is asked for; returns only in a copy, with what it is to be and its open files."""
        while True:
            sent, files, _, _ = socket.recv_fds(asking, LONGEST, 3 + MOST_PASSED)
            if not sent:
                os._exit(0)
            asked = decoded(sent)
            answer: dict[str, object] = {}
            if why := refusal(asked, self.environment, sys.modules.keys(), self.room):
                answer["refused"] = why
            elif pid := self._forked():
                answer["pid"] = pid
            else:
                asking.close()
                return asked, files
            for each in files:
                os.close(each)
            asking.send(json.dumps(answer).encode())

    def _forked(self) -> int:
        """Return the id of a new process, and 0 in the process itself.

        It is a child of a child that ends at once, so whoever adopts orphans gets it: the one who asked.
        """
        assert len(os.listdir("/proc/self/task")) == 1, "a process with threads cannot be copied"
        told, tell = os.pipe()
        between = os.fork()
        if between == 0:
            for number, handler in self.handlers:
                signal.signal(number, handler)  # type: ignore[arg-type]  # as `getsignal` gave it
            if pid := os.fork():
                os.write(tell, str(pid).encode())
                os._exit(0)
            os.close(told)
            os.close(tell)
            return 0
        os.close(tell)
        os.waitpid(between, 0)
        with open(told, "rb") as pipe:
            return int(pipe.read())


def main() -> None:
    """Serve; in a copy, run what was asked for."""
    asking = socket.socket(fileno=int(sys.argv[1]))
    os.environ.pop(FILLED)
    handlers = [(number, signal.signal(number, signal.SIG_IGN)) for number in IGNORED]
    server = Server(dict(os.environ), own_room(), handlers)
    warm_up()
    asked, files = server.serve(asking)
    while asked.starts_others:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork():
            theirs.close()
            popen.install(popen.WarmServer(ours))
            break
        for each in (ours.detach(), *files):
            os.close(each)
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)
        asked, files = server.serve(theirs)
    become(asked, files, server.room)
    end(run(asked.module))


def run(module: str) -> int:
    """Run a module as `python -m` does; return the exit code."""
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        sys.stderr.write(f"{ended.code}\n")
        return 1
    except KeyboardInterrupt:
        sys.excepthook(*sys.exc_info())
        return -signal.SIGINT
    except BaseException:  # noqa: BLE001  so ends every program
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def end(code: int) -> NoReturn:
    """End as an interpreter does, but for taking all modules apart, which takes a tenth of a second of a core.

    Args:
        code: the exit code; negative: the number of the signal that the process dies of.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # as `multiprocessing` does in its copies
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code & 0xFF)


def warm_up() -> None:
    """Import what copies will need, and keep the looks for garbage away from it: they write to what they look at."""
    for package in map(importlib.import_module, WARM):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not any(part in NOT_WARM for part in module.name.split(".")):
                importlib.import_module(module.name)
    for name in WARM_TOO:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    main()
