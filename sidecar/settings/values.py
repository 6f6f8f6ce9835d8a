"""The types of settings that several sections share: durations, sockets, addresses."""

import ipaddress
import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final

LONGEST_SOCKET_PATH: Final = 100
"""Bytes. The kernel accepts 107; the lock file beside the socket has a longer name."""
HIGHEST_PORT: Final = 65_535
PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)", re.ASCII)
"""One number with its unit, as in `1h30m`. `ASCII`, because `\\d` would also match digits of other scripts."""
MILLISECONDS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
NUMBER: Final = r"(\d+(?:\.\d+)?)"
ISO: Final = re.compile(
    rf"P(?=[\dT])(?:{NUMBER}W)?(?:{NUMBER}D)?(?:T(?=\d)(?:{NUMBER}H)?(?:{NUMBER}M)?(?:{NUMBER}S)?)?", re.ASCII
)
"""An ISO 8601 duration without years and months, whose length varies."""
LONGEST_TEXT: Final = 100
"""Maximum characters of a duration's text, which limits the time of the regular expressions."""


def duration(text: Any) -> timedelta:
    """Return the duration that a text such as `250ms`, `1h30m` or `PT1.5S` (ISO 8601) means. Raises `ValueError`."""
    if isinstance(text, timedelta):
        return text
    if isinstance(text, str) and len(text) <= LONGEST_TEXT:
        parts = PART.findall(text)
        try:
            # `findall` skips characters that do not match, so the parts must add up to the whole text.
            if parts and "".join(number + unit for number, unit in parts) == text:
                return timedelta(milliseconds=sum(float(number) * MILLISECONDS[unit] for number, unit in parts))
            if iso := ISO.fullmatch(text):
                weeks, days, hours, minutes, seconds = (float(number or 0) for number in iso.groups())
                return timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
        except OverflowError:
            raise ValueError("is longer than a duration can be") from None
    raise ValueError('must be a duration with its unit, e.g. "250ms", "90s", "15m" or "PT1.5S"')


def duration_text(value: timedelta) -> str:
    """Return the duration as a whole number of the largest unit that divides it, e.g. `90s`; for `duration` to read."""
    # Settings have no finer unit; 0 becomes `0h`.
    milliseconds = round(value / timedelta(milliseconds=1))
    unit = next(name for name in ("h", "m", "s", "ms") if milliseconds % MILLISECONDS[name] == 0)
    return f"{milliseconds // MILLISECONDS[unit]}{unit}"


def socket_path(text: Any) -> Path:
    """Return the absolute path of a Unix socket; a leading `unix:` is removed. Raises `ValueError`.

    A relative path must begin with `./`, because a single word is more likely the name of a host. Like other relative
    paths, it is resolved against the working directory of the process.
    """
    path = str(text).removeprefix("unix:")
    # A TCP address has a message of its own, because it belongs into another section.
    if re.search(r":\d+\Z", path):
        raise ValueError(
            "is a TCP address, which is served with mutual TLS only: put it into [tls.listeners], and give the path "
            "of a Unix socket here"
        )
    if not path.startswith(("/", "./")):
        raise ValueError("must be the path of a Unix socket, beginning with / or ./")
    # Made absolute before the check of its length: the kernel limits the path that is passed to it.
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
