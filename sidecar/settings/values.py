"""Forms of setting that several sections share: durations, sockets, loopback addresses."""

import ipaddress
import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, TypeAdapter

PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
MILLISECONDS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
ISO: Final = TypeAdapter(timedelta)
LONGEST_SOCKET_PATH: Final = 100
"""Bytes; the kernel takes 107, and the lock beside the socket has a longer name."""
HIGHEST_PORT: Final = 65_535


class Section(BaseModel):
    """A table of the settings file: closed, and never changed after the start."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def duration(text: Any) -> timedelta:
    """Return `"250ms"`, `"90s"`, `"1h30m"` or an ISO 8601 duration. Raises `ValueError`."""
    if isinstance(text, timedelta):
        return text
    if isinstance(text, str):
        parts = PART.findall(text)
        if parts and "".join(number + unit for number, unit in parts) == text:
            return timedelta(milliseconds=sum(float(number) * MILLISECONDS[unit] for number, unit in parts))
        if text.startswith("P"):
            return ISO.validate_python(text)
    raise ValueError('must be a duration with its unit, e.g. "250ms", "90s", "15m" or "PT1.5S"')


def duration_text(value: timedelta) -> str:
    """Return the duration in the largest unit that fits; `duration` reads it back."""
    milliseconds = round(value / timedelta(milliseconds=1))
    unit = next(name for name in ("h", "m", "s", "ms") if milliseconds % MILLISECONDS[name] == 0)
    return f"{milliseconds // MILLISECONDS[unit]}{unit}"


def socket_path(text: Any) -> Path:
    """Return the absolute path of a Unix socket; a leading `unix:` is taken off. Raises `ValueError`.

    One that begins with `./` starts where the process does, as other relative paths do. The dot is asked for, since a
    word alone is more likely the name of a host.
    """
    path = str(text).removeprefix("unix:")
    if re.search(r":\d+\Z", path):
        raise ValueError(
            "is a TCP address, which is not served before mutual TLS is built; give the path of a Unix socket"
        )
    if not path.startswith(("/", "./")):
        raise ValueError("must be the path of a Unix socket, beginning with / or ./")
    path = str(Path(path).absolute())
    if len(path.encode()) > LONGEST_SOCKET_PATH:
        raise ValueError(f"is longer than the {LONGEST_SOCKET_PATH} bytes a socket's path may have")
    return Path(path)


def loopback_address(text: Any) -> str:
    """Return `127.0.0.1:9464` or `[::1]:9464` as it came. Raises `ValueError` for anything beyond this machine."""
    host, _, port = str(text).rpartition(":")
    if not port.isdigit() or int(port) > HIGHEST_PORT:
        raise ValueError('must be a loopback address and a port, e.g. "127.0.0.1:9464"')
    try:
        local = ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        local = False
    if not local:
        raise ValueError("is not a loopback address; nothing is served beyond this machine before mutual TLS is built")
    return str(text)


Duration = Annotated[timedelta, BeforeValidator(duration), PlainSerializer(duration_text)]
SocketPath = Annotated[Path, BeforeValidator(socket_path)]
LoopbackAddress = Annotated[str, BeforeValidator(loopback_address)]
