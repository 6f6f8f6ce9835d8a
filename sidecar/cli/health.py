"""Implements `sidecar health`: asks the running sidecar whether it accepts turns; for operators and container probes.

A probe runs every few seconds, so this module imports as little as possible. `sidecar/entry.py` calls `health_alone`
before it imports the command line.
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
"""The most bytes of the answer that are read, including its headers."""
PATIENCE: Final = 2.0
"""Time limit of each network operation, in seconds."""
OPS_ADDRESS: Final = "127.0.0.1:9464"
"""The default of `server.ops_address`."""
OF_ALL: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  asked, not bound
"""The address for a listener on all addresses: not every system can connect to the wildcard address."""
VARIABLE: Final = "SIDECAR__SERVER__OPS_ADDRESS"
"""The environment variable of the setting; it overrides the file."""


def health_alone(arguments: Sequence[str], variables: Mapping[str, str], out: TextIO) -> int | None:
    """Run `health [--config FILE]`. Of the settings, only `server.ops_address` is read.

    Args:
        arguments: of the command line, without the program's name.
        variables: the environment.
        out: the output.

    Returns:
        The exit code; None: this is another command, or an error that only the complete command line can report.
    """
    # Exactly these forms; Typer handles everything else, with its help and its messages.
    match arguments:
        case ["health"]:
            address = _address(None, variables)
        case ["health", "--config" | "-c", file] if not file.startswith("-"):
            address = _address(file, variables)
        case _:
            return None
    host, _, port = (address or "").rpartition(":")
    is_address = bool(host) and port.isascii() and port.isdigit() and 0 < int(port) <= 65535  # noqa: PLR2004  the last port
    # An invalid setting is not reported here: the complete command line reads the settings again and explains the
    # problem.
    return health(address, PATIENCE, out) if address and is_address else None


def health(ops_address: str, patience: float, out: TextIO) -> int:
    """Print the answer of the sidecar.

    Args:
        ops_address: `server.ops_address` of its settings, e.g. `127.0.0.1:9464`.
        patience: time limit of each network operation, in seconds.
        out: the output.

    Returns:
        The exit code: 0 if the sidecar is ready; 1 if it is not, or does not answer.
    """
    try:
        status, text = answer_of(ops_address, patience)
    except (OSError, ValueError) as problem:
        out.write(f"no answer at {ops_address}: {problem}; is the sidecar running with this server.ops_address?\n")
        return NOT_READY
    ready = status == 200  # noqa: PLR2004  `http.HTTPStatus` would cost an import
    out.write(f"{'ready' if ready else 'not ready'} ({status}){': ' if text else ''}{text}\n")
    return READY if ready else NOT_READY


def answer_of(ops_address: str, patience: float) -> tuple[int, str]:
    """Return status and body of the answer of `/readyz`. Raises `OSError`, or `ValueError` if it is not HTTP."""
    host, _, port = ops_address.rpartition(":")
    # An IPv6 address is in brackets only in front of a port.
    host = host.strip("[]")
    answer = b""
    with closing(socket.create_connection((OF_ALL.get(host, host), int(port)), patience)) as connection:
        # `connection: close` in the request: the end of the answer is then the end of the stream, so no length is
        # parsed.
        connection.sendall(REQUEST % ops_address.encode())
        # Bounded, because any program may listen there and send without end.
        while len(answer) < LONGEST_ANSWER and (part := connection.recv(LONGEST_ANSWER)):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    version, _, rest = head.partition(b" ")
    if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
        raise ValueError("the answer is not HTTP")
    return int(rest[:3]), body.decode("utf-8", "replace").strip()


def _address(file: str | None, variables: Mapping[str, str]) -> str | None:
    """Return the address from the variable, the file or the default, in this order; None: the file cannot be used."""
    # In any case of letters, as the settings read variables; two spellings of one name are an error to report.
    named = [value for name, value in variables.items() if name.upper() == VARIABLE]
    if named:
        return named[0] if len(named) == 1 else None
    if file is None:
        return OPS_ADDRESS
    try:
        # `open` and not `Path`, which would be one more import.
        with open(file, "rb") as content:
            document: Any = tomllib.load(content)
        address = document.get("server", {}).get("ops_address", OPS_ADDRESS)
    except (OSError, ValueError, RecursionError, AttributeError):
        return None
    return address if isinstance(address, str) else None
