"""Reads secrets from files that only their owner can read, and creates a missing secret."""

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from sidecar.core.decoding import DecodeError, from_ascii

SHORTEST: Final = 32
"""Minimum number of characters, 128 bits in hexadecimal digits. A shorter secret could be guessed."""
SECRET_BYTES: Final = 32
"""Random bytes of a secret that is created."""
LARGEST: Final = 64 * 1024
"""Maximum number of bytes that are read of a file."""


class SecretFileProblem(Exception):
    """A secret cannot be used. The message names the file and the cause, but no part of the content."""


def read_secret(path: Path, shortest: int = SHORTEST) -> str:
    """Return the text of a secret file, without the spaces around it.

    Args:
        path: the path of the file.
        shortest: the minimum number of characters.

    Raises:
        SecretFileProblem: the file cannot be read, other users may read it, or the secret is too short.
    """
    secret = _text_in(path, shortest)
    if len(secret) < shortest or not secret.isprintable():
        hint = _how_to_create(path) if shortest == SHORTEST else ""
        raise SecretFileProblem(f"{path} must hold one line of {shortest} characters or more{hint}")
    return secret


def read_secrets(path: Path) -> tuple[str, ...]:
    """Return the lines of a file with several secrets, without the spaces around them.

    Raises:
        SecretFileProblem: the file cannot be read, other users may read it, or a line is too short.
    """
    lines = tuple(line.strip() for line in _text_in(path, SHORTEST).splitlines())
    if not lines or any(len(each) < SHORTEST or not each.isprintable() for each in lines):
        raise SecretFileProblem(f"{path} must hold lines of {SHORTEST} characters or more{_how_to_create(path)}")
    return lines


def _text_in(path: Path, shortest: int) -> str:
    try:
        # NONBLOCK, because opening a named pipe would wait for a writer and block the start.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            # The open file is checked and not the path, which could be exchanged between the check and the read.
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise SecretFileProblem(f"{path} is not a regular file")
            if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise SecretFileProblem(
                    f"{path} may be read by others (mode {status.st_mode & 0o777:04o}): chmod 0400 it"
                )
            content = file.read(LARGEST)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError) and shortest == SHORTEST
        raise SecretFileProblem(
            f"{path} cannot be read: {error.strerror}{_how_to_create(path) if missing else ''}"
        ) from None
    try:
        return from_ascii(content).strip()
    except DecodeError:
        raise SecretFileProblem(f"{path} holds more than ASCII text; write the secret as hex or base64") from None


def _how_to_create(path: Path) -> str:
    """Return the command that creates a random secret, for a message. Not for a secret with a form, e.g. a DSN."""
    import shlex  # noqa: PLC0415  only a refusal needs it

    return f"; create it with `(umask 077; openssl rand -hex 32 > {shlex.quote(str(path))})`"


def read_or_make_secret(path: Path) -> str:
    """Return the secret in `path`. If the file does not exist, create it with 256 random bits and mode 0400.

    Two processes that start at the same time use the same secret: the file is created completely or not at all.
    Raises `SecretFileProblem`.
    """
    if not path.exists():
        _make(path)
    return read_secret(path)


def _make(path: Path) -> None:
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
        try:
            with os.fdopen(handle, "w") as file:
                file.write(secrets.token_urlsafe(SECRET_BYTES) + "\n")
                file.flush()
                # Before the file gets its name: after a crash, an empty file there would refuse every start.
                os.fsync(handle)
            os.link(fresh, path)  # unlike a rename, never replaces a file that another process has just created
        finally:
            fresh.unlink()
    except FileExistsError:
        # Another process was faster. The caller reads that process's secret.
        return
    except OSError as error:
        raise SecretFileProblem(f"{path} cannot be made: {error.strerror}") from None
