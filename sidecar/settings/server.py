"""The `[server]` section: listeners, limits on connections, the behaviour on shutdown, and host groups."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final

from sidecar.settings.section import Section, setting
from sidecar.settings.values import Duration, OpsAddress, SocketPath, socket_path

NOTHING: Final = timedelta(0)
SECOND: Final = timedelta(seconds=1)
MIB: Final = 1024 * 1024
AGENTS_SOCKET: Final = "sidecar.sock"


class LimitsSettings(Section):
    """Limits on connections."""

    message_bytes: int = setting(
        4 * MIB,
        ge=4 * MIB,  # the longest answers of the sidecar, e.g. of a conversation, have up to 3 MiB
        le=64 * MIB,
        description="Maximum size of a message, in bytes.",
    )
    metadata_bytes: int = setting(16_384, ge=1024, description="Maximum size of a call's metadata, in bytes.")
    max_dispatch_calls: int = setting(1024, ge=1, description="Maximum number of concurrent calls of orchestrators.")
    max_agent_streams: int = setting(
        100, ge=1, description="Maximum number of concurrent calls on one connection of a runner host."
    )
    max_agent_calls: int = setting(1024, ge=1, description="Maximum number of concurrent calls of all runner hosts.")
    max_wait: Duration = setting(
        timedelta(seconds=1),
        gt=NOTHING,
        description="Maximum time from sending a BindTurn to its start under overload, if its client says when it was "
        "sent. A BindTurn is refused beyond it, and while calls of bound turns wait in a queue for half as long.",
    )
    max_connections: int = setting(1024, ge=1, description="Maximum number of connections of each socket.")


def group_directory(text: Any) -> Path:
    """Return the absolute path of a host group's directory. Raises `ValueError`."""
    # Checked as the path of the socket in it, because the kernel limits the length of that path.
    return socket_path(f"{text}/{AGENTS_SOCKET}").parent


def user_group(value: Any) -> str:
    """Return the name or the number of a group of users, as text. Raises `ValueError`."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return str(value)
    if isinstance(value, str) and value.strip():
        return value.strip()
    raise ValueError("must be the name of a group of users, or its number")


class HostGroupSettings(Section):
    """A group of runner hosts that run as other users than the sidecar. See docs/runner-hosts.md."""

    directory: Annotated[Path, group_directory] = setting(
        description="Directory of the group's sockets, with a folder `hosts` for those of its hosts. "
        "It is created with mode 0750 and must not be wider."
    )
    group: Annotated[str, user_group] = setting(
        description="Group of users that the hosts are members of: its name or its number."
    )
    slots: tuple[str, ...] = setting(
        (), description="Slots of the group. A slot's entry overrides that of its vertical."
    )
    verticals: tuple[str, ...] = setting((), description="Verticals of the group.")

    @property
    def agents_socket(self) -> Path:
        """The socket of the tool gateway for this group."""
        return self.directory / AGENTS_SOCKET

    def _check(self) -> None:
        if not self.slots and not self.verticals:
            raise ValueError("needs `slots` or `verticals`: hosts of the group may use no grant otherwise")


class ServerSettings(Section):
    """Listeners, and the behaviour on shutdown."""

    dispatch_socket: SocketPath = setting(
        Path("/run/sidecar/dispatch/sidecar.sock"),
        description="Unix socket for the orchestrator. Its directory is created with mode 0700 and must not be wider.",
    )
    agents_socket: SocketPath = setting(
        Path("/run/sidecar/agents/sidecar.sock"),
        description="Unix socket of the tool gateway, for runner hosts that run as the sidecar's user. "
        "The same applies to its directory.",
    )
    host_groups: dict[str, HostGroupSettings] = setting(
        {}, description="Groups of runner hosts that run as other users, by a name of your choice."
    )
    ops_address: OpsAddress = setting(
        "127.0.0.1:9464",
        description="IP address and port of /metrics, /healthz and /readyz, over plain HTTP. In a pod: "
        '`"0.0.0.0:9464"`, so that the kubelet and Prometheus reach it. Port 0: any free port.',
    )
    boot_secret_file: Path = setting(
        Path("/run/sidecar/dispatch/boot-secret"),
        description="File with the secret that each caller of the dispatch socket sends; created if absent.",
    )
    reflection: bool = setting(
        False, description="Enable gRPC reflection for tools such as `buf curl`. Not for production."
    )
    lame_duck: Duration = setting(
        2 * SECOND, ge=NOTHING, description="After a stop signal, the time of serving while health is NOT_SERVING."
    )
    drain_grace: Duration = setting(
        110 * SECOND, gt=NOTHING, description="After a stop signal, the time for running dispatches to end."
    )
    drain_margin: Duration = setting(
        5 * SECOND, ge=NOTHING, description="After the last dispatch, the time for parents to end their turns."
    )
    allow_debugging: bool = setting(
        False,
        description="Let other processes of the sidecar's user read its memory and environment and attach a debugger.",
    )
    limits: LimitsSettings = setting(LimitsSettings(), description="Limits on connections.")

    def _check(self) -> None:
        # A socket has one kind of callers, and the second listener would find the first one's lock.
        if self.dispatch_socket == self.agents_socket:
            raise ValueError("dispatch_socket and agents_socket must differ: they admit different callers")
        # The mode of a directory controls the access to its sockets. Two sockets in one directory would therefore
        # admit the same users.
        owners = {self.dispatch_socket.parent: "dispatch_socket", self.agents_socket.parent: "agents_socket"}
        # A sub-agent in two groups would have two sockets, and it would be open which host may use its grants.
        group_of: dict[tuple[str, str], str] = {}
        for name, group in self.host_groups.items():
            if (owner := owners.setdefault(group.directory, f"host_groups.{name}")) != f"host_groups.{name}":
                raise ValueError(f"host_groups.{name}.directory is that of {owner}: each needs one of its own")
            for each in (*(("slot", slot) for slot in group.slots), *(("vertical", one) for one in group.verticals)):
                if (first := group_of.setdefault(each, name)) != name:
                    raise ValueError(f"host_groups.{name}: the {each[0]} `{each[1]}` is in host_groups.{first}, too")
