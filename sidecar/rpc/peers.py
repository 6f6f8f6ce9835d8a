"""Decides which certificates may call a TLS listener, and for which sub-agents a runner host may act.

Runner hosts at the Unix sockets of host groups have no certificate; the socket itself says which group they belong to.
Source: DESIGN section 12.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from sidecar.core.errors import CallerNotAllowed
from sidecar.policy.targets import HostGroups
from subagents_tls.identities import Identity, identities_of

EVERY: Final = "*"
NO_IDENTITY: Final = (
    "the certificate proves no identity: it needs one SPIFFE URI, or DNS names and no URI; the common name does not "
    "count"
)


class Peer(Struct, frozen=True):
    """The rights of the certificates with certain identities, from `[tls.peers.<name>]` in the settings.

    Attributes:
        name: the name of the table in the settings.
        may: names of the listeners that the peer may call.
        slots, verticals: the sub-agents for whose attempts a runner host may act; `*`: all.
    """

    name: str
    may: frozenset[str]
    slots: frozenset[str] = frozenset()
    verticals: frozenset[str] = frozenset()

    def may_act_for(self, slot: str, vertical: str) -> bool:
        """Return whether this peer may use the grant (the key of a running attempt) of a sub-agent."""
        listed = slot in self.slots or vertical in self.verticals
        return listed or EVERY in self.slots or EVERY in self.verticals

    def check_grant_of(self, slot: str, vertical: str) -> None:
        """Refuse the use of a grant that is for another host's sub-agent. Raises `CallerNotAllowed`."""
        if not self.may_act_for(slot, vertical):
            raise CallerNotAllowed(
                f"the peer `{self.name}` may not act for the sub-agent `{slot}`; see [tls.peers]",
                metadata={"peer": self.name, "slot": slot},
            )


# Parsing a certificate costs more than a call; the few clients of a listener send the same ones with every call.
@lru_cache(maxsize=1024)
def end_of_certificate(pem: bytes) -> datetime:
    """Return the time from which a certificate is no longer valid. It cannot fail: gRPC has parsed it."""
    from cryptography.x509 import load_pem_x509_certificate  # noqa: PLC0415  a start without TLS does not load it

    return load_pem_x509_certificate(pem).not_valid_after_utc


class PeerTable:
    """The callers of one listener.

    Args:
        listener: its name, for messages.
        peers: the peers of all listeners, by identity. A certificate that matches two peers is refused.
        now: returns the present time, with which the end of a certificate is compared.
    """

    def __init__(self, listener: str, peers: Mapping[Identity, Peer], now: Callable[[], datetime]) -> None:
        self._listener = listener
        self._peers = peers
        self._now = now

    def admit(self, auth: Mapping[str, Iterable[bytes]]) -> Peer:
        """Return the peer.

        Args:
            auth: what the TLS handshake has proven, as gRPC reports it.

        Raises:
            CallerNotAllowed: the certificate has expired; it has no identity; the table has none of its identities;
                they belong to several peers; or the peer may not call this listener.
        """
        # Checked here because a handshake that resumes a TLS session does not check the certificate's dates again.
        if any(self._now() >= end_of_certificate(each) for each in auth.get("x509_pem_cert", ())):
            raise CallerNotAllowed("the certificate has expired", metadata={"listener": self._listener})
        # By the name of the peer: a certificate with several DNS names of one peer still matches one peer.
        identities = identities_of(auth)
        matching = {peer.name: peer for each in identities if (peer := self._peers.get(each)) is not None}
        # Several peers are refused and not combined: the rights of one must not extend those of another.
        if len(matching) == 1:
            peer = next(iter(matching.values()))
            if self._listener in peer.may:
                return peer
        if not identities:
            raise CallerNotAllowed(NO_IDENTITY)
        # Cut, because the names come from the caller's certificate and go into logs and an answer's header.
        shown = ", ".join(identities[:3])[:200]
        problem = (
            f"is that of several peers ({', '.join(matching)})" if len(matching) > 1 else "may not call this listener"
        )
        raise CallerNotAllowed(
            f"{shown} {problem}; see `identities` and `may` in [tls.peers], listener `{self._listener}`",
            metadata={"identity": shown, "listener": self._listener},
        )


class SocketOfGroup(Struct, frozen=True):
    """The hosts at one agents socket. One object implements both `PeerAuthoriser` and `AdmittedPeer`.

    gRPC for Python does not report the user id of a peer. The directory of the socket decides which users can connect.
    A grant is therefore valid only at the socket of the group to which its sub-agent belongs.

    Attributes:
        name: of the group; empty: the socket of hosts that belong to no group.
        groups: the groups of all sub-agents.
    """

    name: str
    groups: HostGroups

    def admit(self, _: Any) -> "SocketOfGroup":
        """Return this object: only hosts of the group can connect, so there is nothing to check."""
        return self

    def check_grant_of(self, slot: str, vertical: str) -> None:
        """Refuse a grant that is bound to another socket. Raises `CallerNotAllowed`."""
        if self.groups.of(slot, vertical) != self.name:
            where = f"the hosts of the group `{self.name}`" if self.name else "hosts on `server.agents_socket`"
            raise CallerNotAllowed(
                f"{where} may not act for the sub-agent `{slot}`; see [server.host_groups]",
                metadata={"peer": self.name, "slot": slot},
            )
