"""How long certificates are valid, read from their DER: who connects with TLS need not install a library for that."""

import re
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

CERTIFICATE: Final = re.compile(b"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
VERSION: Final = 0xA0
UTC_TIME: Final = 0x17
LONG_FORM: Final = 0x80
FIRST_YEAR: Final = 50
"""A year of two digits below it is one of this century (RFC 5280, 4.1.2.5.1)."""


@dataclass(frozen=True, slots=True)
class Validity:
    """From when until when a certificate is valid."""

    begins: datetime
    ends: datetime

    @property
    def life(self) -> timedelta:
        """How long it is valid from beginning to end."""
        return self.ends - self.begins

    def left(self, now: datetime) -> timedelta:
        """Return how long it is still valid; negative: it has expired."""
        return self.ends - now

    def renewal_is_late(self, now: datetime) -> bool:
        """Say whether less than a third of its life is left: whatever renews certificates does so before."""
        return self.left(now) * 3 < self.life


def validity_of(pem: bytes) -> Validity | None:
    """Return that of a chain: the shortest of its certificates; None: there is no certificate that can be read."""
    try:
        chain = [_validity(ssl.PEM_cert_to_DER_cert(each.decode("ascii"))) for each in CERTIFICATE.findall(pem)]
    except (ValueError, IndexError):
        return None
    if not chain:
        return None
    return Validity(max(each.begins for each in chain), min(each.ends for each in chain))


def _validity(der: bytes) -> Validity:
    """Walk to the sixth part of a certificate: version, serial number, algorithm and issuer come before it."""
    _, at, _ = _element(der, 0)
    _, at, _ = _element(der, at)
    tag, _, after = _element(der, at)
    at = after if tag == VERSION else at  # version 1 is left out
    for _ in ("serial number", "algorithm", "issuer"):
        _, _, at = _element(der, at)
    _, at, _ = _element(der, at)
    tag, start, after = _element(der, at)
    ending, start_of_end, end = _element(der, after)
    return Validity(_time(tag, der[start:after]), _time(ending, der[start_of_end:end]))


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """Return tag, start and end of the content of what begins at a place."""
    size, start = der[at + 1], at + 2
    if size >= LONG_FORM:
        start += size - LONG_FORM
        size = int.from_bytes(der[at + 2 : start])
    return der[at], start, start + size


def _time(tag: int, content: bytes) -> datetime:
    text = content.decode("ascii")
    if tag == UTC_TIME:
        text = ("20" if int(text[:2]) < FIRST_YEAR else "19") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
