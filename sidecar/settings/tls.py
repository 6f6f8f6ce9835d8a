"""The `[tls]` section for TCP listeners, and a base class for the certificates of outgoing connections."""

import ipaddress
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from sidecar.settings.section import Section, setting
from sidecar.settings.values import HIGHEST_PORT, Duration

if TYPE_CHECKING:
    from subagents_tls.files import TlsFiles

ListenerName = Literal["dispatch", "agents", "operators"]


def tls_address(text: Any) -> str:
    """Return the address `host:port` unchanged. Raises `ValueError`."""
    host, _, port = str(text).rpartition(":")
    # An IPv6 address must be in brackets: without them, its last part could be taken for the port.
    unambiguous = ":" not in host or (host.startswith("[") and host.endswith("]"))
    if not host or not unambiguous or "/" in host or not port.isdigit() or int(port) > HIGHEST_PORT:
        raise ValueError('must be an address and a port, e.g. "0.0.0.0:7443" or "[::]:7443"')
    return str(text)


def _reachable(address: str) -> bool:
    """Return whether a client can connect to the address as it is written."""
    host, _, port = address.rpartition(":")
    try:
        # Clients need a real address: 0.0.0.0 and port 0 have a meaning only for the listener.
        wildcard = ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        # The resolver of the system takes a bare number for an address: `0` is 0.0.0.0.
        wildcard = host.isdecimal()
    return not wildcard and int(port) > 0


TlsAddress = Annotated[str, tls_address]


class TlsListenersSettings(Section):
    """Addresses that are served with mutual TLS, beside the Unix sockets."""

    dispatch: TlsAddress | None = setting(
        None, description="Address for consumer-agents. They send no boot secret: the certificate takes its place."
    )
    agents: TlsAddress | None = setting(
        None, description="Address of the tool gateway for runner hosts of other machines. The grant is still required."
    )
    operators: TlsAddress | None = setting(
        None, description="Address for operators. The role token is still required. Needs an operator key or an issuer."
    )
    agents_target: str = setting(
        "",
        description="gRPC target that runner hosts beyond this machine are told for the tool gateway, e.g. "
        '"dns:///sidecar.shop.svc:7444". Required if `agents` is a wildcard address; unset: that address.',
    )

    @property
    def configured(self) -> Iterator[tuple[ListenerName, str]]:
        """Yield name and address of each listener."""
        if self.dispatch is not None:
            yield "dispatch", self.dispatch
        if self.agents is not None:
            yield "agents", self.agents
        if self.operators is not None:
            yield "operators", self.operators

    def _check(self) -> None:
        if self.agents is not None and not self.agents_target and not _reachable(self.agents):
            raise ValueError("agents_target is required: runner hosts cannot connect to a wildcard or to port 0")


class TlsPeerSettings(Section):
    """A caller that is known by its certificate, and what it may call. Every other certificate is refused."""

    identities: tuple[str, ...] = setting(
        min_length=1, description="SPIFFE ids or DNS names of its certificate. The common name never counts."
    )
    may: tuple[ListenerName, ...] = setting(min_length=1, description="Listeners that it may call.")
    slots: tuple[str, ...] = setting(
        (), description='Of a runner host: slots whose grants it may use; "*" for all. Other grants are refused.'
    )
    verticals: tuple[str, ...] = setting((), description="Of a runner host: verticals whose grants it may use.")

    def _check(self) -> None:
        from subagents_tls.identities import problem_with_identity  # noqa: PLC0415  only where there are peers

        wrong = next((problem for each in self.identities if (problem := problem_with_identity(each))), None)
        if wrong is not None:
            raise ValueError(wrong)
        is_host = bool(self.slots or self.verticals)
        # A runner host without slots could use no grant. Slots of a peer that may not call `agents` have no effect.
        # Both are mistakes.
        if ("agents" in self.may) is not is_host:
            what = "is missing in `may`, but needed for `slots`" if is_host else "also needs `slots` or `verticals`"
            raise ValueError(f'"agents" {what}')


class TlsSettings(Section):
    """TCP listeners with mutual TLS. Without `listeners` nothing but Unix sockets and loopback is served."""

    ca_file: Path | None = setting(None, description="PEM file of the authorities whose client certificates count.")
    certificate_file: Path | None = setting(
        None, description="PEM file of the server certificate, followed by its intermediate certificates."
    )
    key_file: Path | None = setting(
        None, description="PEM file of the certificate's key, not encrypted. Must not be readable by every user."
    )
    connection_age: Duration = setting(
        timedelta(hours=1),
        ge=timedelta(seconds=1),
        description="Age after which new calls need a new connection, and so a certificate that is valid then.",
    )
    listeners: TlsListenersSettings = setting(TlsListenersSettings(), description="Addresses that are served.")
    peers: dict[str, TlsPeerSettings] = setting({}, description="Callers that are admitted, by a name of your choice.")

    def _check(self) -> None:
        names = [name for name, _ in self.listeners.configured]
        if names and None in (self.ca_file, self.certificate_file, self.key_file):
            raise ValueError(
                "ca_file, certificate_file and key_file are required for listeners: nothing is served over TCP without "
                "mutual TLS"
            )
        # An identity in two entries would have the rights of the entry that is found first.
        owner: dict[str, str] = {}
        for name, peer in self.peers.items():
            for identity in peer.identities:
                if owner.setdefault(identity, name) != name:
                    raise ValueError(f"peers.{name}.identities: {identity} is in peers.{owner[identity]}, too")
        # A listener that no peer may call is probably a forgotten entry. Otherwise only failing clients would show it.
        for name in names:
            if not any(name in peer.may for peer in self.peers.values()):
                raise ValueError(f"listeners.{name} would refuse every caller: no entry of [tls.peers] may call it")


class ClientTlsSettings(Section):
    """Certificates of connections that the sidecar opens: a base class for the settings of connectors and runners."""

    ca_file: str | None = setting(
        None,
        description="PEM file of the authorities of the servers. With it, every TCP address is reached with TLS.",
    )
    client_certificate_file: str | None = setting(
        None, description="PEM file of the sidecar's certificate. All three files are followed when they change."
    )
    client_key_file: str | None = setting(None, description="PEM file of its key; must not be readable by every user.")
    server_name: str = setting(
        "", description="Name that the server's certificate must have; empty: the host of the address."
    )

    @property
    def tls(self) -> "TlsFiles | None":
        """The files; None: connections are not encrypted."""
        if self.ca_file is None:
            return None
        from subagents_tls.files import TlsFiles  # noqa: PLC0415  only where there are certificates

        return TlsFiles(
            ca_file=Path(self.ca_file),
            certificate_file=_path(self.client_certificate_file),
            key_file=_path(self.client_key_file),
            server_name=self.server_name,
        )

    def _check(self) -> None:
        # Refused and not ignored: an operator who names these expects an encrypted connection.
        if self.ca_file is None and (self.client_certificate_file or self.client_key_file or self.server_name):
            raise ValueError("ca_file is required for TLS: without it, no certificate would be sent or compared")
        # A certificate without its key cannot be sent.
        if (self.client_certificate_file is None) != (self.client_key_file is None):
            raise ValueError("give both client_certificate_file and client_key_file")


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
