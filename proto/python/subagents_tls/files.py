"""PEM files of one end of a TLS connection, read as a set that fits together, and read again when they change."""

import os
import ssl
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from subagents_tls.validity import validity_of
from subagents_tls.watching import LOOK_SECONDS, FilesProblem, FileWatch

__all__ = ["LOOK_SECONDS", "TlsFiles", "TlsFilesProblem", "TlsMaterial", "WatchedFiles"]

LARGEST: Final = 1024 * 1024
"""Bytes of one file; the public authorities together have 300 KiB."""

TlsFilesProblem = FilesProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files of one end of a connection.

    Attributes:
        ca_file: authorities whose certificates the other end may have; None: the public ones that gRPC brings.
        certificate_file: own certificate, followed by those between it and the authority.
        key_file: the key of `certificate_file`, not encrypted, not readable for every user.
        server_name: a client compares the server's certificate with this name in place of the host in the address.
    """

    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    server_name: str = ""

    def __post_init__(self) -> None:
        """Refuse a certificate without a key. Raises `TlsFilesProblem`."""
        if (self.certificate_file is None) != (self.key_file is None):
            raise TlsFilesProblem("a client or server certificate needs both its certificate file and its key file")

    @property
    def all(self) -> tuple[Path, ...]:
        """The files there are."""
        found = (self.ca_file, self.certificate_file, self.key_file)
        return tuple(Path(each) for each in found if each is not None)


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """What the files held at one time. `number` rises with every change."""

    ca: bytes | None
    certificate: bytes | None
    key: bytes | None
    number: int = 1

    def __repr__(self) -> str:
        """Leave the key out."""
        return f"TlsMaterial(number={self.number})"


class WatchedFiles(FileWatch[TlsMaterial]):
    """Follows the files of one end.

    A certificate that expires without a successor is reported, too: the other end refuses it and does not say why.

    Args:
        files: what is followed.
        report: told why new files are not used, and of a certificate that has expired; must not raise.
        monotonic: a clock.
        now: the time that ends of certificates are compared with.

    Raises:
        TlsFilesProblem: they cannot be used.
    """

    def __init__(
        self,
        files: TlsFiles,
        report: Callable[[str], None] = lambda _: None,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.files = files
        self._now = now
        super().__init__(files.all, self._material, "certificates", report, monotonic)
        self._check_end()

    def _material(self, number: int) -> TlsMaterial:
        files = self.files
        material = TlsMaterial(
            _read(files.ca_file), _read(files.certificate_file), _read(files.key_file, secret=True), number
        )
        _check(files, material)
        self._validity = validity_of(material.certificate or b"")
        return material

    def _look(self) -> None:
        super()._look()
        self._check_end()

    def _check_end(self) -> None:
        if self._validity is not None and not self.problem and self._now() >= self._validity.ends:
            self._tell(
                f"{self.files.certificate_file} has expired ({self._validity.ends:%Y-%m-%d %H:%M} UTC): renew it"
            )


def _read(path: Path | None, *, secret: bool = False) -> bytes | None:
    if path is None:
        return None
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise TlsFilesProblem(f"{path} is not a regular file")
            if secret and found.st_mode & stat.S_IRWXO:
                mode = f"{stat.S_IMODE(found.st_mode):04o}"
                raise TlsFilesProblem(f"{path} may be read by every user (mode {mode}): chmod 0400 it")
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise TlsFilesProblem(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > LARGEST:
        raise TlsFilesProblem(f"{path} is over {LARGEST} bytes")
    return content


def _check(files: TlsFiles, material: TlsMaterial) -> None:
    """Have OpenSSL read the files, for gRPC would say of a wrong one only that no connection can be made."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if material.ca is not None:
        try:
            context.load_verify_locations(cadata=material.ca.decode("ascii"))
        except (ssl.SSLError, ValueError):
            raise TlsFilesProblem(f"{files.ca_file} holds no certificate in PEM") from None
    if files.certificate_file is None or files.key_file is None:
        return
    try:
        context.load_cert_chain(files.certificate_file, files.key_file, password=lambda: b"")
    except OSError as error:  # SSLError is one
        fits = "KEY_VALUES_MISMATCH" not in str(error)
        what = "is no certificate and key in PEM, or the key is encrypted" if fits else "does not fit the key"
        raise TlsFilesProblem(f"{files.certificate_file} with {files.key_file} {what}") from None
