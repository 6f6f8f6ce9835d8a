"""Where the connection to a host or a data service failed: what an operator needs to act, without user data."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

REMEDY_OF_ERRNO: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ENOENT": "there is no such socket: start the process that serves it",
        "ECONNREFUSED": "nothing listens there: start the process that serves it",
        "EACCES": "the sidecar's user may not connect: correct owner and mode of the socket and of its directory",
        "EPERM": "the sidecar's user may not connect: correct owner and mode of the socket and of its directory",
        "ETIMEDOUT": "the machine does not answer: check it, the network and the firewall",
        "EHOSTUNREACH": "there is no way to the machine: check the network and the firewall",
        "ENETUNREACH": "there is no way to the machine: check the network and the firewall",
        "ECONNRESET": "the process closed the connection: see its log",
        "EPIPE": "the process closed the connection: see its log",
    }
)
UNKNOWN_REMEDY: Final = "see whether the process runs, and its log"


class Fault(msgspec.Struct, frozen=True):
    """One failure of a connection to another system. For logs and timelines; never shown to a model or user.

    Attributes:
        target: the name in the configuration; empty if there is none.
        address: the address that was tried; the target itself if it is an address.
        errno: the operating system's error, such as `ECONNREFUSED`, or the protocol's, such as `HTTP 503`; empty if
            neither is known.
        remedy: what an operator can do about it.
    """

    target: str
    address: str = ""
    errno: str = ""
    remedy: str = ""

    def details(self) -> dict[str, str]:
        """Return the four parts in the form of an event of a child."""
        return {"target": self.target, "address": self.address, "errno": self.errno, "remedy": self.remedy}

    def in_words(self) -> str:
        """Return the place and the error in a few words, e.g. `unix:/run/shop.sock (ENOENT)`."""
        # The address first: it is what was tried, and a name in the configuration may be resolved elsewhere.
        place = self.address or self.target or "no address"
        return f"{place} ({self.errno})" if self.errno else place


def remedy_for(errno: str, setting: str) -> str:
    """Return the remedy for an error of the operating system.

    Args:
        errno: such as `ENOENT`; empty if unknown.
        setting: the setting that contains the address.
    """
    return f"{REMEDY_OF_ERRNO.get(errno, UNKNOWN_REMEDY)}, or correct {setting}"
