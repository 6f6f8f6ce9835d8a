"""Forms of setting that several sections share: durations, sockets, addresses."""

import ipaddress
import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final

from sidecar.settings.durations import duration

LONGEST_SOCKET_PATH: Final = 100
"""Bytes; the kernel takes 107, and the lock beside the socket has a longer name."""
HIGHEST_PORT: Final = 65_535


def socket_path(text: Any) -> Path:
    """Return the absolute path of a Unix socket; a leading `unix:` is taken off. Raises `ValueError`.

    One that begins with `./` starts where the process does, as other relative paths do. The dot is asked for, since a
    word alone is more likely the name of a host.
    """
    path = str(text).removeprefix("unix:")
    if re.search(r":\d+\Z", path):
        raise ValueError(
            "is a TCP address, which is served with mutual TLS only: put it into [tls.listeners], and give the path "
            "of a Unix socket here"
        )
    if not path.startswith(("/", "./")):
        raise ValueError("must be the path of a Unix socket, beginning with / or ./")
    path = str(Path(path).absolute())
    if len(path.encode()) > LONGEST_SOCKET_PATH:
        raise ValueError(f"is longer than the {LONGEST_SOCKET_PATH} bytes a socket's path may have")
    return Path(path)


def ops_address(text: Any) -> str:
    """Return an IP address with a port, e.g. `127.0.0.1:9464`, `[::1]:9464` or `0.0.0.0:9464`. Raises `ValueError`.

    Host names are refused: a name can resolve to several addresses, and only one of them would be served.
    """
    host, _, port = str(text).rpartition(":")
    if not port.isdigit() or int(port) > HIGHEST_PORT:
        raise ValueError('must be an IP address and a port, e.g. "127.0.0.1:9464"')
    try:
        ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        raise ValueError(
            f'{host!r} is not an IP address; give 127.0.0.1 for this machine only, or in a pod "0.0.0.0:{port}"'
        ) from None
    return str(text)


Duration = Annotated[timedelta, duration]
SocketPath = Annotated[Path, socket_path]
OpsAddress = Annotated[str, ops_address]
