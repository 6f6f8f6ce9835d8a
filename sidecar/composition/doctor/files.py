"""Checks files with secrets and data: whether they are missing, and whether other users may read or replace them."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from sidecar.adapters.system import SecretFileProblem, read_secret, read_secrets
from sidecar.composition.rollout.open_rollout import tombstone_file
from sidecar.core.decoding import DecodeError, from_ascii
from sidecar.operations.process.findings import Finding, error, ok, warning
from sidecar.settings import Settings

OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
"""The mode bits of the group and of other users. No file of the record may have one of them."""


def examine_keys(settings: Settings) -> Iterator[Finding]:
    """Yield a finding for each file with a secret or a key."""
    secret = settings.server.boot_secret_file
    if secret.exists():
        yield _secret("server.boot_secret_file", secret, read_secret)
    else:
        problem = cannot_make(secret.parent)
        about = f"server.boot_secret_file {secret}"
        yield unusable("files", about, problem) if problem else ok("files", about, "is created at the first start")
    if not settings.keys.files:
        remedy = "set `keys.files` if turns must survive a restart, or if there are several replicas"
        yield warning("files", "keys.files", "no signing key: each start creates one that no other process has", remedy)
    for name, path in settings.keys.files.items():
        yield _secret(f"keys.files.{name}", path, read_secrets)
    for name, path in settings.signatures.files.items():
        yield _secret(f"signatures.files.{name}", path, read_secret)
    # The sidecar knows only the public keys of operators; the private keys stay with the operators. `keys` are plain
    # paths, and each `[operators.key.<name>]` also limits roles and subjects.
    public = [*settings.operators.keys, *(key.file for key in settings.operators.key.values())]
    for path in public:
        yield _public_key(path)


def examine_directories(settings: Settings) -> Iterator[Finding]:
    """Yield a finding for each directory in which other users may replace files of the sidecar.

    A SQLite record also has a finding for each of its files that other users may read or write.
    """
    record, checkpoints = settings.record, settings.record.checkpoints
    files = {
        "rollout.tombstone_file": tombstone_file(settings),
        "server.boot_secret_file": settings.server.boot_secret_file,
    }
    if record.database == "sqlite":
        files["record.sqlite.path"] = record.sqlite.path
        yield from _readable("record.sqlite.path", record.sqlite.path)
    if checkpoints.file is not None:
        files["record.checkpoints.file"] = checkpoints.file
    if checkpoints.key_file is not None:
        files["record.checkpoints.key_file"] = checkpoints.key_file
    for setting, path in files.items():
        folder = path.parent
        # A missing folder is no finding here: the start creates it with a mode that is private.
        mode = folder.stat().st_mode if os.path.isdir(folder) else 0
        # With the sticky bit, as in /tmp, only the owner of a file may replace it.
        if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
            text = f"others may replace files in {folder} (mode {stat.S_IMODE(mode):04o})"
            yield warning(
                "files", f"{setting} {path}", text, f"chmod go-w {folder}, unless all of its group are trusted"
            )


def _readable(setting: str, database: Path) -> Iterator[Finding]:
    """Yield a finding for each file of a SQLite database that other users may read or write."""
    # SQLite keeps recent content in the files beside the database, with modes of their own.
    for path in (database, *(database.with_name(f"{database.name}-{kind}") for kind in ("wal", "shm"))):
        mode = path.stat().st_mode if os.path.exists(path) else 0
        if mode & OTHERS:
            text = f"may be read or written by others (mode {stat.S_IMODE(mode):04o})"
            yield error("files", f"{setting} {path}", text, f"chmod 0600 {path}")


def _secret(setting: str, path: Path, read: Callable[[Path], object]) -> Finding:
    """Return the finding about a file with a secret; `read` is what the sidecar reads it with at a start."""
    try:
        # Read as at a start, so that the two cannot disagree about a file.
        read(path)
    except SecretFileProblem as problem:
        make = f"(umask 077; openssl rand -hex 32 > {path})"
        return error("files", setting, str(problem), f"correct it; `{make}` creates a new secret")
    return ok("files", setting, "can be read by this user only")


def _public_key(path: Path) -> Finding:
    """Return the finding about a file with an operator's public key."""
    about = f"operators key {path}"
    try:
        text = from_ascii(path.read_bytes())
    except (OSError, DecodeError) as problem:
        return error("files", about, f"cannot be read: {problem}", "`sidecar token key` makes a key pair")
    # The usual mistake: the private key's file, which lies beside the public one, was named.
    if "PUBLIC KEY" not in text:
        return error("files", about, "is not a public key in PEM format", "name the file that ends in .pub")
    return ok("files", about, "is a public key")


def cannot_make(folder: Path) -> str:
    """Return why a folder can be neither used nor created; empty if it can."""
    nearest = folder
    # The start creates missing parents, so the nearest existing one decides.
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir():
        return f"{nearest} is not a directory"
    return "" if os.access(nearest, os.W_OK | os.X_OK) else f"{nearest} cannot be written by this user"


def unusable(area: str, about: str, problem: str) -> Finding:
    """Return a finding about a path that this user cannot use; `problem` says why."""
    return error(area, about, problem, "run as a user who may write there, or choose another path")
