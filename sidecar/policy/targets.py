"""Rules about addresses in settings: which are on this machine, which URLs are allowed, which host group serves whom.

Connectors, gate clients and the checks of settings use them.
"""

import ipaddress
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from msgspec import Struct, field

UNIX_SCHEMES: Final = ("unix:", "unix-abstract:")
ADDRESS_SCHEMES: Final = ("dns:", "ipv4:", "ipv6:")


class HostGroups(Struct, frozen=True):
    """The group of runner hosts that serves each sub-agent. A slot's entry overrides the entry of its vertical.

    Attributes:
        slots: name of the group, by slot.
        verticals: name of the group, by vertical.
    """

    slots: Mapping[str, str] = field(default_factory=dict)
    verticals: Mapping[str, str] = field(default_factory=dict)

    def of(self, slot: str, vertical: str) -> str:
        """Return the name of the sub-agent's group; empty: it belongs to no group."""
        return self.slots.get(slot) or self.verticals.get(vertical, "")


def is_local(target: str) -> bool:
    """Return whether a target is a Unix socket, `localhost` or a loopback address."""
    if target.startswith(UNIX_SCHEMES):
        return True
    return is_this_machine(_host_of(target))


def is_this_machine(host: str) -> bool:
    """Return whether a host, without port or brackets, is `localhost` or a loopback address."""
    # Other names are not resolved: the answer could change after the check, and a lookup would block the event loop.
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def problem_with_url(url: str, risk: str, *, query: bool = False) -> str | None:
    """Return the problem with the URL of a service, or None. The text contains neither the URL nor its password.

    Args:
        url: the value of a setting.
        risk: the attack that plain HTTP to another machine would allow; the end of the message.
        query: whether the URL may have a query.
    """
    try:
        parts = urlsplit(url)
        # `port` is read for its `ValueError`: `urlsplit` itself accepts a port that is no number.
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        return "is not a URL"
    if parts.scheme not in {"http", "https"} or not host:
        return "must begin with http:// or https:// and name a host"
    # Logs and errors show URLs. A password belongs into a setting of its own, whose value is hidden.
    if parts.username is not None or parts.password is not None or parts.fragment or (parts.query and not query):
        return f"must hold no user name, password{' or' if query else ', query or'} fragment"
    if parts.scheme == "http" and not is_this_machine(host):
        return f"must be https:// beyond this machine: {risk}"
    return None


def _host_of(target: str) -> str:
    """Return the host of a gRPC target such as `dns:///shop:7443` or `[::1]:7443`, without port and brackets."""
    if target.startswith(ADDRESS_SCHEMES):
        target = target.partition(":")[2].rsplit("/", maxsplit=1)[-1]
    # gRPC decodes a target, too: the check must see the host to which gRPC connects.
    target = unquote(target)
    if target.startswith("["):
        return target[1:].partition("]")[0]
    # With more than one colon, and without brackets, it is an IPv6 address without a port.
    return target.rpartition(":")[0] if target.count(":") == 1 else target
