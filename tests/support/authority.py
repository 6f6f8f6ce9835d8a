"""An authority that issues certificates into files, for tests of TLS."""

import datetime as dt
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from subagents_tls.files import TlsFiles

DAY: Final = dt.timedelta(days=1)
AGENT: Final = "spiffe://tests.example/ns/assistant/sa/agent"
HOST: Final = "spiffe://tests.example/ns/shop/sa/host"
OPERATOR: Final = "desk.operators.example"
LOCAL: Final = ("localhost", "127.0.0.1")


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate, its key, and the authority, in PEM."""

    authority: bytes
    certificate: bytes
    key: bytes

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """Return them for a gRPC client."""
        return grpc.ssl_channel_credentials(self.authority, self.key, self.certificate)

    def written(self, folder: Path) -> TlsFiles:
        """Write them as whatever renews certificates does, each file replaced at once; return the files."""
        folder.mkdir(exist_ok=True)
        files = {"ca.pem": self.authority, "tls.crt": self.certificate, "tls.key": self.key}
        for name, content in files.items():
            fresh = folder / f".{name}"
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(content)
            fresh.replace(folder / name)
        return TlsFiles(ca_file=folder / "ca.pem", certificate_file=folder / "tls.crt", key_file=folder / "tls.key")


class Authority:
    """Issues certificates by names: `spiffe://` makes a URI, digits an address, `a@b` a mailbox, all else DNS names."""

    def __init__(self, name: str = "authority of the tests") -> None:
        """Make its key and its own certificate."""
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(self._name, self._key.public_key(), (-DAY, 30 * DAY))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.pem = builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def issue(
        self, *names: str, common_name: str = "a common name", life: tuple[dt.timedelta, dt.timedelta] = (-DAY, DAY)
    ) -> Issued:
        """Return a certificate for names.

        Args:
            names: alternative names of the subject.
            common_name: which must not count.
            life: when it begins and ends, from now.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        builder = self._builder(subject, key.public_key(), life)
        if names:
            alternatives = x509.SubjectAlternativeName([_general(name) for name in names])
            builder = builder.add_extension(alternatives, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        return Issued(self.pem, certificate, key.private_bytes(serialization.Encoding.PEM, form, plain))

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, life: Sequence[dt.timedelta]
    ) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key)
        builder = builder.serial_number(x509.random_serial_number())
        return builder.not_valid_before(now + life[0]).not_valid_after(now + life[1])


def _general(name: str) -> x509.GeneralName:
    if "://" in name and not name.startswith("dns:"):
        return x509.UniformResourceIdentifier(name)
    if "@" in name:
        return x509.RFC822Name(name)
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name.removeprefix("dns:"))
