"""`subprocess.Popen` that asks a warm server for a copy where one will do, and starts a process as always elsewhere."""

import ctypes
import inspect
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any, Final

from tests.support.fork_server.asking import ROOT, Asked, asked_by
from tests.support.fork_server.shown import FILLED, FILLER, FILLER_OF_VARIABLES

LONGEST: Final = 1 << 16
ADOPTING: Final = 36
"""`PR_SET_CHILD_SUBREAPER` of prctl(2): orphans of whatever we have started become our children."""
AlwaysPopen = subprocess.Popen
START: Final[Any] = AlwaysPopen._execute_child  # type: ignore[attr-defined]  # private, but the same since 3.11
PARAMETERS: Final = inspect.signature(START)


class WarmServer:
    """The warm server that this process can ask; started when it is first needed, unless there is one already."""

    def __init__(self, connection: socket.socket | None = None) -> None:
        self.wanted = True
        self._connection = connection
        self._server: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._owner = os.getpid()

    @property
    def pid(self) -> int | None:
        """Its id, if it was started from here."""
        return None if self._server is None else self._server.pid

    def copy(self, asked: Asked, streams: Sequence[int]) -> int:
        """Return the id of a child that is what was asked for, or 0: it has to be started."""
        if not self.wanted or os.getpid() != self._owner:
            return 0
        with self._lock:
            connection = self._connection or self._start()
            _adopt(orphans=True)
            try:
                socket.send_fds(connection, [asked.encoded()], [*streams, *asked.passed])
                answer = json.loads(connection.recv(LONGEST) or '{"refused": "the server has ended"}')
            finally:
                _adopt(orphans=False)
        return int(answer.get("pid", 0))

    def close(self) -> None:
        """End the one that was started, and wait for it, so that what it used counts."""
        if self._server is not None and self._connection is not None:
            self.wanted = False
            self._connection.close()
            self._server.wait()

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._server = AlwaysPopen(
                [sys.executable, "-m", "tests.support.fork_server.server", str(theirs.fileno()), FILLER],
                cwd=ROOT,
                env={**os.environ, FILLED: FILLER_OF_VARIABLES},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self._connection = ours
        return ours


class WarmPopen(AlwaysPopen[Any]):
    """A child that is a copy of a warm process, where that will do."""

    server: WarmServer

    def __init__(self, args: Any, *more: Any, **options: Any) -> None:
        self._asked = None if more else asked_by(args, options)
        super().__init__(args, *more, **options)

    def _execute_child(self, *given: Any) -> None:
        if self._asked is not None:
            ends = PARAMETERS.bind(self, *given).arguments
            streams = (ends["p2cread"], ends["c2pwrite"], ends["errwrite"])
            handed = [number if end == -1 else end for number, end in enumerate(streams)]
            if pid := self.server.copy(self._asked, handed):
                self.pid, self._child_created = pid, True
                names = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
                self._close_pipe_fds(*(ends[name] for name in names))  # type: ignore[attr-defined]  # private, too
                return
        START(self, *given)


def install(server: WarmServer) -> None:
    """Let whatever this process starts be a copy where that will do."""
    WarmPopen.server = server
    subprocess.Popen = WarmPopen  # type: ignore[misc]  # a class is put in the place of another


def _adopt(*, orphans: bool) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(ADOPTING, int(orphans), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
