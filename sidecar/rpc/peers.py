"""Which certificate may call what over TLS: one table for each listener, default deny (DESIGN section 12)."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from sidecar.core.errors import CallerNotAllowed
from subagents_tls.identities import Identity, identities_of

EVERY: Final = "*"
NO_IDENTITY: Final = (
    "the certificate proves no identity: it needs one SPIFFE URI, or DNS names and no URI; the common name does not "
    "count"
)


class Peer(Struct, frozen=True):
    """What the settings say of some identities.

    Attributes:
        name: of the table in the settings.
        may: names of the listeners that it may call.
        slots, verticals: whose attempts a runner host may act for; `*`: all.
    """

    name: str
    may: frozenset[str]
    slots: frozenset[str] = frozenset()
    verticals: frozenset[str] = frozenset()

    def may_act_for(self, slot: str, vertical: str) -> bool:
        """Say whether the grant of a sub-agent may be used by this peer."""
        known = slot in self.slots or vertical in self.verticals
        return known or EVERY in self.slots or EVERY in self.verticals

    def check_grant_of(self, child: Any) -> None:
        """Refuse the use of a grant that is for another host's sub-agent.

        Args:
            child: whose grant it is; None: of no running attempt, which is refused later.

        Raises:
            CallerNotAllowed: the peer may not act for the child.
        """
        if child is None:
            return
        definition = child.tool.card.definition
        if not self.may_act_for(definition.slot, definition.vertical):
            raise CallerNotAllowed(
                f"the peer `{self.name}` may not act for the sub-agent `{definition.slot}`; see [tls.peers]",
                metadata={"peer": self.name, "slot": str(definition.slot)},
            )


class PeerTable:
    """Who may call one listener.

    Args:
        listener: its name, for messages.
        peers: of all listeners, by identity: a certificate of two peers is refused, whatever they may call.
    """

    def __init__(self, listener: str, peers: Mapping[Identity, Peer]) -> None:
        self._listener = listener
        self._peers = peers

    def admit(self, auth: Mapping[str, Iterable[bytes]]) -> Peer:
        """Return who calls.

        Args:
            auth: of gRPC: what the handshake has proven.

        Raises:
            CallerNotAllowed: the certificate proves no identity, none of the table, or some of several peers.
        """
        identities = identities_of(auth)
        found = {peer.name: peer for each in identities if (peer := self._peers.get(each)) is not None}
        if len(found) == 1:
            peer = next(iter(found.values()))
            if self._listener in peer.may:
                return peer
        if not identities:
            raise CallerNotAllowed(NO_IDENTITY)
        shown = ", ".join(identities[:3])[:200]
        problem = f"is that of several peers ({', '.join(found)})" if len(found) > 1 else "may not call this listener"
        raise CallerNotAllowed(
            f"{shown} {problem}; see `identities` and `may` in [tls.peers], listener `{self._listener}`",
            metadata={"identity": shown, "listener": self._listener},
        )
