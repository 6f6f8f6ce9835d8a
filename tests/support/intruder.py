"""`python -m tests.support.intruder <attempts as JSON>`: tries what it is told, and writes what became of each as JSON.

An attempt is a list of a word and its arguments; its result is empty if it worked, else the name of the error.
"""

import errno
import json
import os
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import grpc

from subagents.tools.v1 import tools_pb2, tools_pb2_grpc
from tests.support.requests import failure_from


def connect(path: str) -> None:
    """Connect to a socket."""
    with socket.socket(socket.AF_UNIX) as tried:
        tried.connect(path)


def write(path: str) -> None:
    """Create a file, and remove it."""
    with open(path, "x"):
        pass
    os.unlink(path)


def read(path: str) -> None:
    """Read a byte; the memory of a process begins where nothing is, which is told by another error than a refusal."""
    try:
        with open(path, "rb", buffering=0) as file:
            file.read(1)
    except OSError as error:
        if error.errno != errno.EIO:
            raise


def use(target: str, grant: str) -> None:
    """Use a grant at a tool gateway."""
    with grpc.insecure_channel(target) as channel:
        stub: Any = tools_pb2_grpc.ToolGatewayServiceStub(channel)  # type: ignore[arg-type]  # serves both kinds
        stub.ReadOwnTurns(tools_pb2.ReadOwnTurnsRequest(), timeout=10, metadata=(("x-subagents-grant", grant),))


ATTEMPTS: Final[Mapping[str, Callable[..., object]]] = {
    "list": os.listdir,
    "read": read,
    "write": write,
    "connect": connect,
    "use": use,
    "remove": lambda path: Path(path).unlink(),
}


def tried(word: str, *arguments: str) -> str:
    """Return what became of an attempt."""
    try:
        ATTEMPTS[word](*arguments)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    except grpc.RpcError as error:
        failure = failure_from(error)  # type: ignore[arg-type]  # that of a channel without asyncio has the same parts
        return failure.reason or failure.code.name
    return ""


if __name__ == "__main__":
    sys.stdout.write(json.dumps([tried(*each) for each in json.loads(sys.argv[1])]))
