"""`python -m tests.support.fork_server.probe <what> ...`: what a process finds at its start, and ways to end."""

import atexit
import ctypes
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any


def found() -> dict[str, Any]:
    """Return all that a new process finds, as values that do not depend on its id."""
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_char_p
    streams = [sys.stdin, sys.stdout, sys.stderr]
    return {
        "copy": "tests.support.fork_server.becoming" in sys.modules,
        "arguments": [*sys.argv, *sys.orig_argv],
        "name": __name__,
        "folder": os.getcwd(),
        "path": sys.path,
        "variables": dict(os.environ),
        "variable of C": str(libc.getenv(b"SIDECAR_PROBE")),
        "shown arguments": _shown("cmdline"),
        "shown variables": sorted(_shown("environ")),
        "leads": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()],
        "signals": [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "descriptors": sorted(os.listdir("/proc/self/fd")),
        "streams": [(each.name, each.encoding, each.errors, each.line_buffering) for each in streams],
        "unbuffered": [getattr(each, "write_through", None) for each in streams],
        "dunders": [sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__],
        "threads": [each.name for each in threading.enumerate()],
        "read": sys.stdin.read(),
        "passed": [os.pread(int(number), 99, 0).decode() for number in sys.argv[3:]],
    }


def _shown(name: str) -> list[str]:
    return Path(f"/proc/self/{name}").read_bytes().rstrip(b"\0").decode().split("\0")


def say(text: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Do what is asked for."""
    match sys.argv[1:]:
        case ["find", *_]:
            say(json.dumps(found()))
        case ["exit", code]:
            atexit.register(say, "the last words")
            threading.Timer(0.1, say, ["a thread is waited for"]).start()
            sys.exit(int(code) if code.isdigit() else code)
        case ["raise"]:
            raise LookupError("as asked")
        case ["interrupt"]:
            signal.raise_signal(signal.SIGINT)
        case ["wait"]:
            say("waits")
            signal.pause()
        case _:
            sys.exit(2)


if __name__ == "__main__":
    main()
