"""Which gRPC targets stay on this machine."""

import ipaddress
from typing import Final
from urllib.parse import unquote

UNIX_SCHEMES: Final = ("unix:", "unix-abstract:")
ADDRESS_SCHEMES: Final = ("dns:", "ipv4:", "ipv6:")


def is_local(target: str) -> bool:
    """Say whether a target is a Unix socket, `localhost` or a loopback address."""
    if target.startswith(UNIX_SCHEMES):
        return True
    host = _host_of(target)
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host_of(target: str) -> str:
    if target.startswith(ADDRESS_SCHEMES):
        target = target.partition(":")[2].rsplit("/", maxsplit=1)[-1]
    target = unquote(target)
    if target.startswith("["):
        return target[1:].partition("]")[0]
    return target.rpartition(":")[0] if target.count(":") == 1 else target
