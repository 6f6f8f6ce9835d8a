"""Which addresses are on this machine."""

import ipaddress
from urllib.parse import unquote

UNIX_SCHEMES = ("unix:", "unix-abstract:")


def is_local(target: str) -> bool:
    """Whether a gRPC target stays on this machine: a Unix socket, `localhost` or a loopback address."""
    if target.startswith(UNIX_SCHEMES):
        return True
    host = _host_of(target)
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def refuse_remote(target: str, *, allowed: bool = False) -> None:
    """Refuse an address beyond this machine, as these connections are not encrypted.

    Raises:
        ValueError: `target` leaves the machine and `allowed` is False.
    """
    if not allowed and not is_local(target):
        raise ValueError(
            f"{target} is beyond this machine, and the connection would not be encrypted: use a Unix socket or loopback"
        )


def unix_path(target: str) -> str | None:
    """Return the path of a Unix socket target, or None for any other."""
    if not target.startswith("unix:"):
        return None
    return "/" + target.removeprefix("unix://").lstrip("/") if target.startswith("unix://") else target[5:]


def _host_of(target: str) -> str:
    for scheme in ("dns:", "ipv4:", "ipv6:"):
        if target.startswith(scheme):
            target = target.removeprefix(scheme).rsplit("/", maxsplit=1)[-1]
    target = unquote(target)
    if target.startswith("["):
        return target[1:].partition("]")[0]
    return target.rpartition(":")[0] if target.count(":") == 1 else target
