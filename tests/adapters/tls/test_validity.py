"""The dates of a certificate, compared with a library's."""

import datetime as dt

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from subagents_tls.validity import Validity, validity_of
from tests.support.authority import AGENT, DAY, Authority


def made(begins: dt.datetime, ends: dt.datetime, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    """Return a certificate, in PEM, with a serial number and a name that are long."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "ü" * 30)] * 5)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 2**158, begins, ends)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


YEARS = [(1950, 1999), (1999, 2000), (2026, 2027), (2049, 2050), (2050, 2099), (2026, 9999)]


@pytest.mark.parametrize("years", YEARS)
def test_dates_of_every_form_are_read(years: tuple[int, int]) -> None:
    """Two digits of the year until 2049, four from then on."""
    begins, ends = (dt.datetime(year, 12, 31, 23, 59, 59, tzinfo=dt.UTC) for year in years)
    pem = made(begins, ends, ec.generate_private_key(ec.SECP256R1()))
    read = x509.load_pem_x509_certificate(pem)
    assert validity_of(pem) == Validity(read.not_valid_before_utc, read.not_valid_after_utc) == Validity(begins, ends)


def test_a_certificate_over_64_kib_of_a_larger_key_is_read() -> None:
    """Lengths of one, two and three bytes occur."""
    names = [x509.DNSName(f"{'x' * 60}.{number}.example") for number in range(1000)]
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "many")])
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + DAY)
    signed = builder.add_extension(x509.SubjectAlternativeName(names), critical=False).sign(key, hashes.SHA256())
    assert len(signed.public_bytes(serialization.Encoding.DER)) > 65_536
    assert validity_of(signed.public_bytes(serialization.Encoding.PEM)) == Validity(now, now + DAY)


def test_a_chain_is_valid_as_long_as_all_of_it() -> None:
    """From the latest begin until the earliest end."""
    authority = Authority()
    short, long = (authority.issue(AGENT, life=(-DAY / days, days * DAY)).certificate for days in (1, 9))
    assert validity_of(b"# a comment\n" + long + short) == Validity(begin_of(long), end_of(short))


def begin_of(pem: bytes) -> dt.datetime:
    """Return it as the library reads it."""
    return x509.load_pem_x509_certificate(pem).not_valid_before_utc


def end_of(pem: bytes) -> dt.datetime:
    """Return it as the library reads it."""
    return x509.load_pem_x509_certificate(pem).not_valid_after_utc


@pytest.mark.parametrize("end", ["", "x" * 40, "MAA=", "MIIBIjANBgkqhkiG9w0BAQ==", "MIM="])
def test_what_is_no_certificate_has_no_dates(end: str) -> None:
    """No exception: OpenSSL has the word on what can be used."""
    assert validity_of(f"-----BEGIN CERTIFICATE-----\n{end}\n-----END CERTIFICATE-----\n".encode()) is None
    assert validity_of(end.encode()) is None
