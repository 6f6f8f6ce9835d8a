"""The socket of a group of runner hosts: whoever can connect to it is a host of this group.

gRPC for Python tells no user id of a peer. The directory of the socket decides who can connect, so a grant counts at
the socket of the group that its sub-agent belongs to, and at no other.
"""

from typing import Any

from msgspec import Struct

from sidecar.core.errors import CallerNotAllowed
from sidecar.policy.targets import HostGroups


class SocketOfGroup(Struct, frozen=True):
    """Callers of one agents socket: a `PeerAuthoriser` and the `AdmittedPeer` that it admits.

    Attributes:
        name: of the group; empty: the socket of hosts that belong to none.
        groups: of all sub-agents.
    """

    name: str
    groups: HostGroups

    def admit(self, _: Any) -> "SocketOfGroup":
        """Return who calls: a host of the group, since only those can connect."""
        return self

    def check_grant_of(self, slot: str, vertical: str) -> None:
        """Refuse a grant that is bound to another socket. Raises `CallerNotAllowed`."""
        if self.groups.of(slot, vertical) != self.name:
            where = f"the hosts of the group `{self.name}`" if self.name else "hosts on `server.agents_socket`"
            raise CallerNotAllowed(
                f"{where} may not act for the sub-agent `{slot}`; see [server.host_groups]",
                metadata={"peer": self.name, "slot": slot},
            )
