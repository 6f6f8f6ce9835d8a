"""`sidecar health`: asks the running sidecar whether it accepts turns; for health checks of images and for people.

Imports as little as possible: see `sidecar/entry.py`.
"""

import socket
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, Final, TextIO

READY: Final = 0
NOT_READY: Final = 1
REQUEST: Final = b"GET /readyz HTTP/1.1\r\nhost: %s\r\nconnection: close\r\n\r\n"
LONGEST_ANSWER: Final = 2048
"""Bytes of the answer that are read, its headers included."""
PATIENCE: Final = 2.0
"""Seconds for each step of asking."""
OPS_ADDRESS: Final = "127.0.0.1:9464"
"""What `server.ops_address` is by default."""
OF_ALL: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  asked, not bound
"""Where a listener on all addresses is asked: not every system connects to the address that means all."""
VARIABLE: Final = "SIDECAR__SERVER__OPS_ADDRESS"


def health_alone(arguments: Sequence[str], variables: Mapping[str, str], out: TextIO) -> int | None:
    """Answer `health [--config FILE]`, without looking at any other setting than where to ask.

    Args:
        arguments: of the command line, without the program's name.
        variables: the environment.
        out: where to print.

    Returns:
        The exit code; None: this is another command, or the whole command line has to say what is wrong.
    """
    match arguments:
        case ["health"]:
            address = _address(None, variables)
        case ["health", "--config" | "-c", file] if not file.startswith("-"):
            address = _address(file, variables)
        case _:
            return None
    host, _, port = (address or "").rpartition(":")
    known = bool(host) and port.isascii() and port.isdigit() and 0 < int(port) <= 65535  # noqa: PLR2004  the last port
    return health(address, PATIENCE, out) if address and known else None


def health(ops_address: str, patience: float, out: TextIO) -> int:
    """Print what the sidecar answers.

    Args:
        ops_address: `server.ops_address` of its settings, e.g. `127.0.0.1:9464`.
        patience: longest wait in seconds for each step of asking.
        out: where to print.

    Returns:
        The exit code: 0 if it is ready; 1 if it says no, or does not answer.
    """
    try:
        status, said = answer_of(ops_address, patience)
    except (OSError, ValueError) as problem:
        out.write(f"no answer at {ops_address}: {problem}; is the sidecar running with this server.ops_address?\n")
        return NOT_READY
    ready = status == 200  # noqa: PLR2004  the module of its name is one that this does not import
    out.write(f"{'ready' if ready else 'not ready'} ({status}){': ' if said else ''}{said}\n")
    return READY if ready else NOT_READY


def answer_of(ops_address: str, patience: float) -> tuple[int, str]:
    """Return status and body of what `/readyz` answers. Raises `OSError`, or `ValueError` if the answer is no HTTP."""
    host, _, port = ops_address.rpartition(":")
    host = host.strip("[]")
    answer = b""
    with closing(socket.create_connection((OF_ALL.get(host, host), int(port)), patience)) as connection:
        connection.sendall(REQUEST % ops_address.encode())
        while len(answer) < LONGEST_ANSWER and (part := connection.recv(LONGEST_ANSWER)):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    version, _, rest = head.partition(b" ")
    if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
        raise ValueError("what answers there speaks no HTTP")
    return int(rest[:3]), body.decode("utf-8", "replace").strip()


def _address(file: str | None, variables: Mapping[str, str]) -> str | None:
    """Return what the variable says, or the file, or the default; None: the file cannot be used."""
    said = [value for name, value in variables.items() if name.upper() == VARIABLE]
    if said:
        return said[0] if len(said) == 1 else None
    if file is None:
        return OPS_ADDRESS
    try:
        with open(file, "rb") as content:
            document: Any = tomllib.load(content)
        address = document.get("server", {}).get("ops_address", OPS_ADDRESS)
    except (OSError, ValueError, RecursionError, AttributeError):
        return None
    return address if isinstance(address, str) else None
