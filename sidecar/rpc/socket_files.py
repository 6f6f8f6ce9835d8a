"""Prepares a Unix socket: only this process serves it, and only this user, or also one group, can reach it."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

PRIVATE: Final = 0o700
OF_A_GROUP: Final = 0o750
"""The directory of a group: members may enter, but not write, because they could replace the sidecar's socket."""
OF_HOSTS: Final = 0o1770
"""The folder for the hosts' sockets: members may create sockets, but not remove those of other users."""
HOSTS_FOLDER: Final = "hosts"
"""The name of this folder in the directory of a group."""
SOCKET_MODE: Final = 0o600
GROUP_SOCKET_MODE: Final = 0o660


class CannotListen(Exception):
    """An address cannot be served as configured; the message has the cause and the remedy."""


class AddressInUse(CannotListen):
    """Another process serves the address. That process was not disturbed."""


class Misfit(NamedTuple):
    """Why the sidecar refuses a directory, and what an operator can do about it."""

    problem: str
    remedy: str


def misfit_of(directory: Path, group: int | None, mode: int) -> Misfit | None:
    """Return why the sidecar refuses an existing directory for sockets; None: it does not.

    Args:
        directory: the directory. It is not changed, because other programs may need it, e.g. /run.
        group: the group whose members may enter; None: only the sidecar's user may.
        mode: the mode with which the sidecar would create it. A mode that permits more is refused.
    """
    status = directory.stat()
    # The owner can change the mode at any time, so a right mode of another user's directory proves nothing.
    if status.st_uid != os.geteuid():
        return Misfit("belongs to another user", f"chown {os.geteuid()} {directory}, or configure another one")
    if group is not None and status.st_gid != group:
        return Misfit(f"belongs to the group {status.st_gid}, not {group}", f"chgrp {group} {directory}")
    modes = f"(mode {stat.S_IMODE(status.st_mode):04o})"
    # Only what is wider is refused here. A narrower mode is an operator's choice.
    if status.st_mode & ~mode & (stat.S_IRWXG | stat.S_IRWXO):
        return Misfit(f"lets others in {modes}", f"chmod {mode:04o} {directory}")
    # Refused at the start: otherwise only the clients would notice, when they cannot connect.
    if group is not None and not status.st_mode & stat.S_IXGRP:
        return Misfit(f"cannot be entered by its group {modes}", f"chmod {mode:04o} {directory}")
    return None


@contextmanager
def exclusive_socket(path: Path, group: int | None = None) -> Iterator[None]:
    """Hold the right to serve `path` while the context is open.

    gRPC would take over a socket that another process serves, and a socket that a killed process left looks like a
    live one. A lock beside the socket therefore decides, and a file at `path` is removed only under the lock.

    Args:
        path: of the socket.
        group: the group whose members may enter its directory; None: only the sidecar's user may.

    Raises:
        AddressInUse: another process has the lock.
        CannotListen: other users can enter the directory, or own it, or the path is a file that is no socket.

    Source: reliability row 12 and finding 9.
    """
    if group is None:
        _make_directory(path.parent, None, PRIVATE)
    else:
        _make_directory(path.parent, group, OF_A_GROUP)
        _make_directory(path.parent / HOSTS_FOLDER, group, OF_HOSTS)
    try:
        # `O_NOFOLLOW`: a symbolic link must not make this process create or lock a file in another place.
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise CannotListen(f"{path}.lock cannot be opened: {error.strerror}") from None
    try:
        try:
            # The kernel releases this lock when the process ends, also when it is killed, so a lock is never stale.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AddressInUse(f"{path} is served by another process; stop it, or configure another path") from None
        # Under the lock: a socket there now belongs to no living process.
        _remove_stale(path)
        yield
        # Under the lock: after its release the path may be the socket of the next process.
        path.unlink(missing_ok=True)
    finally:
        os.close(lock)  # the file stays: if it were removed, two processes could lock two files of the same name


def admit_clients(path: Path, group: int | None) -> None:
    """Set the mode of a socket, so that the sidecar's user, and the members of a group, can connect.

    Raises:
        CannotListen: the socket cannot be given to the group.
    """
    if group is not None:
        _give(path, group, path.parent)
    # After the group is set: the wider mode must never apply to the process's own group.
    path.chmod(SOCKET_MODE if group is None else GROUP_SOCKET_MODE)


def how_to_make(directory: Path, group: int) -> str:
    """Return the commands with which root makes the directories of a group.

    The set-group-id bit of the directory gives new sockets its group, also if the sidecar is no member of the group.
    """
    made = ((directory, OF_A_GROUP | stat.S_ISGID), (directory / HOSTS_FOLDER, OF_HOSTS))
    return " && ".join(f"install -d -o {os.geteuid()} -g {group} -m {mode:04o} {path}" for path, mode in made)


def _make_directory(directory: Path, group: int | None, mode: int) -> None:
    try:
        if not directory.is_dir():
            # Private until the group and its mode are set: the other order would admit members of the wrong group
            # meanwhile.
            directory.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
            if group is not None:
                _give(directory, group, directory)
                directory.chmod(mode)
        misfit = misfit_of(directory, group, mode)
    except OSError as error:
        raise CannotListen(f"the directory {directory} cannot be used: {error.strerror}") from None
    if misfit is not None:
        raise CannotListen(f"the directory {directory} {misfit.problem}: {misfit.remedy}")


def _give(path: Path, group: int, directory: Path) -> None:
    """Give a directory, or a file that this process has created in it, to a group."""
    try:
        # -1 keeps the owner; a process without privileges may only choose a group of its own.
        os.chown(path, -1, group)
    except OSError:
        if path == directory:
            path.rmdir()  # the next start would refuse it as one of another group
        raise CannotListen(
            f"{path} cannot be given to the group {group}, of which this process is no member: add the sidecar's user "
            f"to the group, or make the directories as root: {how_to_make(directory, group)}"
        ) from None


def _remove_stale(path: Path) -> None:
    try:
        # Not `stat`, which would follow a link to a socket of another program.
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise CannotListen(f"{path} is there and is no socket; remove it, or configure another path")
    path.unlink()
