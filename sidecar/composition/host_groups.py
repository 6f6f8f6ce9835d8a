"""Groups of runner hosts that run as other users: each has an agents socket, and its grants count only there."""

import grp
from collections.abc import Sequence

from msgspec.structs import replace

from sidecar.adapters.runners import GatewayAddresses
from sidecar.policy.targets import HostGroups
from sidecar.rpc.listeners import ListenerPlan
from sidecar.rpc.peers import SocketOfGroup
from sidecar.settings import ServerSettings, SettingsProblem
from sidecar.settings.server import HostGroupSettings


def groups_of(server: ServerSettings) -> HostGroups:
    """Return which sub-agents belong to which group."""
    configured = server.host_groups.items()
    return HostGroups(
        {slot: name for name, group in configured for slot in group.slots},
        {vertical: name for name, group in configured for vertical in group.verticals},
    )


def with_groups(gateways: GatewayAddresses, server: ServerSettings) -> GatewayAddresses:
    """Return the addresses of the tool gateway, with the socket of each host group added."""
    sockets = {name: f"unix:{group.agents_socket}" for name, group in server.host_groups.items()}
    return replace(gateways, groups=groups_of(server), of_groups=sockets)


def agents_plans(server: ServerSettings, agents: ListenerPlan) -> Sequence[ListenerPlan]:
    """Return the listener of hosts that belong to no group, and that of each group.

    Raises:
        SettingsProblem: there is no such group of users.
    """
    groups = groups_of(server)
    # The socket without a group is restricted, too: a grant of a group is refused there.
    plans = [replace(agents, entrance=replace(agents.entrance, peers=SocketOfGroup("", groups)))]
    for name, group in server.host_groups.items():
        # The path of the socket tells the group, and the kernel which users can reach the path.
        entrance = replace(agents.entrance, peers=SocketOfGroup(name, groups))
        plans.append(replace(agents, socket=group.agents_socket, entrance=entrance, group=group_id(name, group)))
    return plans


def group_id(name: str, group: HostGroupSettings) -> int:
    """Return the number of a group of users. Raises `SettingsProblem`."""
    # A number need not exist in the system: containers often have none of the host's groups.
    if group.group.isdecimal():
        return int(group.group)
    try:
        return grp.getgrnam(group.group).gr_gid
    except KeyError:
        remedy = f"create it with `groupadd --system {group.group}`, or give its number"
        problem = f"server.host_groups.{name}.group: there is no group of users `{group.group}`: {remedy}"
        raise SettingsProblem([problem]) from None
