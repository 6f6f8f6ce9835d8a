"""Tells which addresses are on this machine, so that load is not sent to another one by mistake."""

import ipaddress
from urllib.parse import unquote

UNIX_SCHEMES = ("unix:", "unix-abstract:")
SCHEMES = ("dns:", "ipv4:", "ipv6:")


def is_local(target: str) -> bool:
    """Return whether a gRPC target is on this machine: a Unix socket, `localhost`, or loopback addresses only."""
    if target.startswith(UNIX_SCHEMES):
        return True
    for scheme in SCHEMES:
        if target.startswith(scheme):
            target = target.removeprefix(scheme).rsplit("/", maxsplit=1)[-1]
    return all(_is_loopback(_host_of(unquote(one))) for one in target.split(","))


def _host_of(address: str) -> str:
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.rpartition(":")[0] if address.count(":") == 1 else address


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
