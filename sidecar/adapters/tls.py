"""How long certificates are valid."""

from datetime import UTC, datetime, timedelta

from cryptography import x509
from msgspec import Struct


class Validity(Struct, frozen=True):
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
        chain = x509.load_pem_x509_certificates(pem)
    except ValueError:
        return None
    begins = max(each.not_valid_before_utc for each in chain)
    return Validity(begins.astimezone(UTC), min(each.not_valid_after_utc for each in chain).astimezone(UTC))
