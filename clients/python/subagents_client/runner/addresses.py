"""Checks the address of a runner host before it is served. Messages say why it cannot be served, and what to do."""

import errno
import os
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from subagents_client.channels import unix_path

LONGEST_SOCKET_PATH: Final = 107
"""In bytes: the 108 of Linux's `sun_path`, without the final zero byte."""
LARGEST_PORT: Final = 65_535
EX_UNAVAILABLE: Final = 69
EX_CONFIG: Final = 78
ABSTRACT: Final = "unix-abstract:"
FOR_WHOEVER_ENTERS: Final = 0o666
"""Mode of a socket whose directory decides who connects. The sidecar may not be a member of the socket's group."""


def check_address(target: str) -> None:
    """Refuse an address that cannot be served. gRPC would refuse it too, but does not say why.

    Raises:
        OSError: the address cannot be served. Its `errno` is `EADDRINUSE` if another process uses the address.
    """
    path = unix_path(target)
    if path is not None:
        _check_socket(Path(path))
    elif not target.startswith(ABSTRACT):
        _check_port(target)


def admit_owner_of_directory(target: str) -> None:
    """Let a sidecar with another user id connect to the served Unix socket.

    If the directory belongs to another user, and users outside its group cannot enter it, then the sidecar created it
    for a host group, and the directory decides who connects. In other directories the socket keeps the mode that the
    umask gave it.
    """
    path = unix_path(target)
    if path is not None:
        folder = Path(path).parent.stat()
        if folder.st_uid != os.geteuid() and not folder.st_mode & stat.S_IRWXO:
            os.chmod(path, FOR_WHOEVER_ENTERS)


@contextmanager
def start_errors_in_one_line() -> Iterator[None]:
    """End the process with one line instead of a traceback if the host cannot start, as the sidecar does.

    Raises:
        SystemExit: the code is 69 if another process uses the address, else 78.
    """
    try:
        yield
    except (OSError, ValueError) as problem:
        in_use = isinstance(problem, OSError) and problem.errno == errno.EADDRINUSE
        text = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
        sys.stderr.write(f"the runner host cannot start: {text}\n")
        raise SystemExit(EX_UNAVAILABLE if in_use else EX_CONFIG) from None


def _check_socket(path: Path) -> None:
    folder = path.parent
    if len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
        raise _wrong(errno.ENAMETOOLONG, f"{path} is longer than {LONGEST_SOCKET_PATH} bytes: use a shorter path")
    if not folder.is_dir():
        raise _wrong(errno.ENOENT, f"{folder} is no directory: create it with `mkdir -p -m 0700 {folder}`")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _wrong(errno.EACCES, f"{folder} is not writable for this user: change its owner or use another one")
    if path.exists() and not stat.S_ISSOCK(path.stat().st_mode):
        raise _wrong(errno.EEXIST, f"{path} is there and is no socket: remove it, or use another path")


def _check_port(target: str) -> None:
    host, _, port = target.removeprefix("dns:").removeprefix("ipv4:").removeprefix("ipv6:").rpartition(":")
    if not port.isdecimal() or int(port) > LARGEST_PORT:
        raise _wrong(errno.EINVAL, f"{target} has no port from 0 to 65535: write it as 127.0.0.1:8000")
    try:
        found = socket.getaddrinfo(host.strip("[]/"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, proto, _, address = found[0]
        with socket.socket(family, kind, proto) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # gRPC binds with it too
            probe.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            text = f"{target} is in use by another process: stop that process, or use another port"
            raise _wrong(errno.EADDRINUSE, text) from None
        if error.errno == errno.EACCES:
            text = f"{target} is not permitted for this user: use a port above 1023"
            raise _wrong(errno.EACCES, text) from None
        raise _wrong(error.errno or errno.EINVAL, f"{target} cannot be served: {error.strerror}") from None


def _wrong(number: int, text: str) -> OSError:
    return OSError(number, text)
