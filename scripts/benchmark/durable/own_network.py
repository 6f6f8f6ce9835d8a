"""A network of a process's own: loopback and nothing else."""

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parent.parent.parent.parent
NEW_USER: Final = 0x10000000
NEW_NETWORK: Final = 0x40000000
SET_FLAGS: Final = 0x8914
UP: Final = 1


def leave_the_network() -> None:
    """Give this process and those that it starts a network with nothing but a loopback device.

    Needs root, or a kernel that lets users make namespaces. To be called before there is a second thread.

    Raises:
        OSError: the system does not allow it.
    """
    user, group = os.geteuid(), os.getegid()
    try:
        _unshare(NEW_NETWORK)
    except PermissionError:
        _unshare(NEW_NETWORK | NEW_USER)
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SET_FLAGS, struct.pack("16sh22x", b"lo", UP))


def possible() -> bool:
    """Say whether the system allows it; tried by another process."""
    command = [sys.executable, "-c", f"import {__name__} as own; own.leave_the_network()"]
    return not subprocess.run(command, cwd=REPOSITORY, stderr=subprocess.DEVNULL, check=False).returncode


def _unshare(what: int) -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(what):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
