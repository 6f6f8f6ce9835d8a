"""Secrets, read from a file and followed, and the signatures made with them, after the Standard Webhooks convention."""

import base64
import binascii
import hmac
import os
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from subagents_tls.watching import FilesProblem, FileWatch

PREFIX: Final = "whsec_"
LEAST_BYTES: Final = 24
MOST_BYTES: Final = 64
MOST_SECRETS: Final = 2
"""The new one and the old one, while a receiver changes from one to the other."""
LARGEST_FILE: Final = 4096


class Secrets:
    """The secrets of a file: one, or two during a rotation. Their text shows nowhere.

    Args:
        file: one secret a line, the newest first.
        report: told why a new content of the file is not used.
        monotonic: a clock.

    Raises:
        FilesProblem: the file cannot be used.
    """

    def __init__(
        self, file: Path, report: Callable[[str], None], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._watched = FileWatch((file,), lambda _: secrets_in(file), "secrets", report, monotonic)

    def signature(self, message_id: str, timestamp: int, body: bytes) -> str:
        """Return the value of `webhook-signature`: one signature for each secret, separated by spaces."""
        signed = f"{message_id}.{timestamp}.".encode() + body
        digests = (hmac.digest(secret, signed, "sha256") for secret in self._watched.current())
        return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


def secrets_in(file: Path) -> Sequence[bytes]:
    """Return the secrets of a file. Raises `FilesProblem`, which says nothing of what is in the file."""
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
            found = os.fstat(opened.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise FilesProblem(f"{file} is not a regular file")
            if found.st_mode & stat.S_IRWXO:
                mode = f"{stat.S_IMODE(found.st_mode):04o}"
                raise FilesProblem(f"{file} may be read by every user (mode {mode}): chmod 0400 it")
            content = opened.read(LARGEST_FILE + 1)
    except OSError as error:
        raise FilesProblem(f"{file} cannot be read: {error.strerror}") from None
    lines = content.split()
    if not 1 <= len(lines) <= MOST_SECRETS or len(content) > LARGEST_FILE:
        raise FilesProblem(f"{file} must hold one or two secrets, one a line")
    return [_secret(line, f"line {number} of {file}") for number, line in enumerate(lines, 1)]


def _secret(line: bytes, where: str) -> bytes:
    try:
        secret = base64.b64decode(line.removeprefix(PREFIX.encode()), validate=True)
    except binascii.Error:
        secret = b""
    if not line.startswith(PREFIX.encode()) or not LEAST_BYTES <= len(secret) <= MOST_BYTES:
        raise FilesProblem(f"{where} is no secret: {PREFIX} and {LEAST_BYTES} to {MOST_BYTES} bytes in base64")
    return secret
