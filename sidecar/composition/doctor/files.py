"""Checks sockets, their directories and files with secrets: permissions, owners, missing files."""

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from sidecar.adapters.system import SecretFileProblem, read_secret, read_secrets
from sidecar.core.decoding import DecodeError, from_ascii
from sidecar.operations.process.findings import Finding, error, ok, warning
from sidecar.settings import Settings

OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def examine_sockets(settings: Settings) -> Iterator[Finding]:
    """Yield a finding for each socket that the sidecar would listen on."""
    server = settings.server
    sockets = {"server.dispatch_socket": server.dispatch_socket, "server.agents_socket": server.agents_socket}
    if settings.operators.configured:
        sockets["operators.socket"] = settings.operators.socket
    for setting, path in sockets.items():
        yield _socket(setting, path)


def examine_keys(settings: Settings) -> Iterator[Finding]:
    """Yield a finding for each file with a secret or a key."""
    secret = settings.server.boot_secret_file
    if secret.exists():
        yield _secret("server.boot_secret_file", secret, read_secret)
    else:
        problem = _cannot_make(secret.parent)
        about = f"server.boot_secret_file {secret}"
        yield _unusable(about, problem) if problem else ok("files", about, "is made at the first start")
    if not settings.keys.files:
        remedy = "set `keys.files` where turns must outlive a restart, or where there are several replicas"
        yield warning("files", "keys.files", "no signing key: each start makes one that no other process has", remedy)
    for name, path in settings.keys.files.items():
        yield _secret(f"keys.files.{name}", path, read_secrets)
    for name, path in settings.signatures.files.items():
        yield _secret(f"signatures.files.{name}", path, read_secret)
    public = [*settings.operators.keys, *(key.file for key in settings.operators.key.values())]
    for path in public:
        yield _public_key(path)


def _socket(setting: str, path: Path) -> Finding:
    about = f"{setting} {path}"
    if not path.parent.exists():
        problem = _cannot_make(path.parent)
        return _unusable(about, problem) if problem else ok("sockets", about, "its directory is made at the start")
    refused = _folder(about, path.parent)
    if refused is not None:
        return refused
    if path.exists() and not stat.S_ISSOCK(path.lstat().st_mode):
        return error("sockets", about, "there is a file that is no socket", "remove it, or choose another path")
    if _is_locked(Path(f"{path}.lock")):
        return ok("sockets", about, "a running process serves it")
    return ok("sockets", about, "free")


def _folder(about: str, folder: Path) -> Finding | None:
    """Return why the sidecar would refuse the directory of a socket; None if it would accept it."""
    found = folder.stat()
    if found.st_uid != os.geteuid():
        return error("sockets", about, f"{folder} belongs to another user", "run as that user, or choose another path")
    if found.st_mode & OTHERS:
        mode = f"{stat.S_IMODE(found.st_mode):04o}"
        return error("sockets", about, f"{folder} lets others in (mode {mode})", f"chmod 0700 {folder}")
    return None


def _is_locked(lock: Path) -> bool:
    """Return whether a process holds a lock file. Takes the lock for a moment and creates no file."""
    with suppress(OSError), closing(open(lock, "rb")) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _secret(setting: str, path: Path, read: Callable[[Path], object]) -> Finding:
    try:
        read(path)
    except SecretFileProblem as problem:
        make = f"(umask 077; openssl rand -hex 32 > {path})"
        return error("files", setting, str(problem), f"correct it; `{make}` makes a new secret")
    return ok("files", setting, "can be read by this user only")


def _public_key(path: Path) -> Finding:
    about = f"operators key {path}"
    try:
        text = from_ascii(path.read_bytes())
    except (OSError, DecodeError) as problem:
        return error("files", about, f"cannot be read: {problem}", "`sidecar token key` makes a key pair")
    if "PUBLIC KEY" not in text:
        return error("files", about, "is no public key in PEM", "name the file that ends in .pub")
    return ok("files", about, "is a public key")


def _cannot_make(folder: Path) -> str:
    """Return why a folder can be neither used nor created; empty if it can."""
    there = folder
    while not there.exists():
        there = there.parent
    if not there.is_dir():
        return f"{there} is no directory"
    return "" if os.access(there, os.W_OK | os.X_OK) else f"{there} cannot be written by this user"


def _unusable(about: str, problem: str) -> Finding:
    return error("files", about, problem, "run as a user who may write there, or choose another path")
