"""A Unix socket that only this process serves, in a directory that only its user can enter."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PRIVATE: Final = 0o700
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class CannotListen(Exception):
    """An address cannot be served as configured; the message has the cause and the remedy."""


class AddressInUse(CannotListen):
    """Another process serves the address; it was left alone."""


@contextmanager
def exclusive_socket(path: Path) -> Iterator[None]:
    """Hold the right to serve `path` while the context is open.

    gRPC would take over a socket that another process serves, and a socket that a killed process left looks like a
    live one. A lock beside the socket therefore decides, and a file at `path` is removed only under the lock.

    Raises:
        AddressHeld: another process has the lock.
        CannotListen: the directory lets others in, or is not ours, or the path holds something that is no socket.

    Source: reliability row 12 and finding 9.
    """
    _make_private(path.parent)
    try:
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise CannotListen(f"{path}.lock cannot be opened: {error.strerror}") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AddressInUse(f"{path} is served by another process; stop it, or configure another path") from None
        _remove_stale(path)
        yield
        path.unlink(missing_ok=True)
    finally:
        os.close(lock)  # the file stays: if it were removed, two processes could lock two files of the same name


def _make_private(directory: Path) -> None:
    try:
        directory.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        found = directory.stat()
    except OSError as error:
        raise CannotListen(f"the directory {directory} cannot be used: {error.strerror}") from None
    # An existing directory is never changed: other programs may need it, e.g. /run.
    if found.st_uid != os.geteuid():
        raise CannotListen(f"the directory {directory} belongs to another user; configure one of our own")
    if found.st_mode & OTHERS:
        mode = f"{stat.S_IMODE(found.st_mode):04o}"
        raise CannotListen(f"the directory {directory} lets others in (mode {mode}): chmod 0700 it")


def _remove_stale(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise CannotListen(f"{path} is there and is no socket; remove it, or configure another path")
    path.unlink()
