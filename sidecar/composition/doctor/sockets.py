"""Checks the sockets that the sidecar would serve: owner, group and mode of their directories, and other servers."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from sidecar.composition.doctor.files import cannot_make, unusable
from sidecar.composition.host_groups import group_id
from sidecar.operations.process.findings import Finding, error, ok, warning
from sidecar.rpc.socket_files import HOSTS_FOLDER, OF_A_GROUP, OF_HOSTS, PRIVATE, how_to_make, misfit_of
from sidecar.settings import Settings, SettingsProblem
from sidecar.settings.server import HostGroupSettings


def examine_sockets(settings: Settings) -> Iterator[Finding]:
    """Yield a finding for each socket that the sidecar would listen on."""
    server = settings.server
    sockets = {"server.dispatch_socket": server.dispatch_socket, "server.agents_socket": server.agents_socket}
    if settings.operators.configured:
        sockets["operators.socket"] = settings.operators.socket
    for setting, path in sockets.items():
        yield _socket(f"{setting} {path}", path)
    for name, group in server.host_groups.items():
        yield from _group(name, group)


def _socket(about: str, path: Path, group: int | None = None) -> Finding:
    """Return the finding about one socket; `group` is the id of the group that may use it, None: only this user."""
    if not path.parent.exists():
        problem = cannot_make(path.parent)
        return (
            unusable("sockets", about, problem)
            if problem
            else ok("sockets", about, "its directory is created at the start")
        )
    refused = _refused(about, path.parent, group, PRIVATE if group is None else OF_A_GROUP)
    if refused is not None:
        return refused
    # `lstat`: a symbolic link to a socket is not replaced at the start, so it is not accepted here either.
    if path.exists() and not stat.S_ISSOCK(path.lstat().st_mode):
        return error("sockets", about, "the path is a file, not a socket", "remove it, or choose another path")
    # The lock decides and not the socket: a process that was killed leaves its socket behind, but no lock.
    if _is_locked(Path(f"{path}.lock")):
        return ok("sockets", about, "a running process serves it")
    return ok("sockets", about, "free")


def _group(name: str, configured: HostGroupSettings) -> Iterator[Finding]:
    """Yield findings about the directory of a host group, and about the folder in it for the sockets of its hosts.

    A host group consists of runner hosts that run as other users than the sidecar.
    """
    directory = configured.directory
    about = f"server.host_groups.{name} {directory}"
    try:
        group = group_id(name, configured)
    except SettingsProblem as problem:
        yield error("sockets", about, "; ".join(problem.problems), "correct the name of the group")
        return
    hosts = directory / HOSTS_FOLDER
    # Only root, or a member of the group, may give a file to a group.
    may_give = os.geteuid() == 0 or group in {os.getegid(), *os.getgroups()}
    # With the set-group-id bit on the directory, a new socket gets the directory's group without any right.
    group_is_inherited = os.path.exists(hosts) and directory.stat().st_mode & stat.S_ISGID
    if not may_give and not group_is_inherited:
        lacking = f"its socket cannot be given to the group {configured.group}, of which this user is not a member"
        yield error("sockets", about, lacking, f"add the user to it, or as root: {how_to_make(directory, group)}")
        return
    yield _socket(about, configured.agents_socket, group)
    if os.path.exists(hosts) and (refused := _refused(about, hosts, group, OF_HOSTS)):
        yield refused
    # Every folder above must be passable for the group as well, or the hosts get "permission denied" without a hint.
    for parent in directory.parents:
        if parent.exists() and not _may_enter(parent, group):
            yield warning(
                "sockets",
                about,
                f"the group cannot enter {parent}, so its hosts cannot reach the socket",
                f"chmod o+x {parent}",
            )


def _refused(about: str, directory: Path, group: int | None, mode: int) -> Finding | None:
    """Return why the sidecar would refuse the directory of a socket; None: it would not."""
    misfit = misfit_of(directory, group, mode)
    return None if misfit is None else error("sockets", about, f"{directory} {misfit.problem}", misfit.remedy)


def _may_enter(directory: Path, group: int) -> bool:
    """Return whether members of a group can pass through a directory."""
    status = directory.stat()
    return bool(status.st_mode & (stat.S_IXGRP if status.st_gid == group else stat.S_IXOTH))


def _is_locked(lock: Path) -> bool:
    """Return whether a process holds a lock file. Takes the lock for a moment and creates no file."""
    # A missing lock file means that no sidecar has ever served this path.
    with suppress(OSError), closing(open(lock, "rb")) as file:
        try:
            # Shared, so that two checks at a time do not see each other as a server. Closing the file releases the
            # lock.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
