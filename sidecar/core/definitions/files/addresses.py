"""Checks that an address has a scheme. Without one, gRPC interprets the address as a DNS name."""

from collections.abc import Sequence
from typing import Final

from sidecar.core.definitions.files.problems import nearest

GRPC_SCHEMES: Final = ("unix", "unix-abstract", "vsock", "dns", "ipv4", "ipv6", "xds")
HTTP_SCHEMES: Final = ("http", "https")


def problem_with_target(target: str) -> str | None:
    """Return the problem with a gRPC target such as `unix:/run/shop.sock`, with a suggestion; None if it is valid."""
    problem = problem_with_scheme(target, GRPC_SCHEMES, "unix:/run/shop.sock")
    if problem is None:
        return None
    scheme, _, rest = target.partition(":")
    if target.startswith("/"):
        return f"{problem}; did you mean unix:{target}?"
    # `localhost:50051` splits into a scheme and digits; the author means a host and a port.
    if rest.isdecimal():
        return f"{problem}; did you mean dns:{target}?"
    meant = nearest(scheme, GRPC_SCHEMES)
    return problem if meant is None else f"{problem}; did you mean {meant}:?"


def problem_with_scheme(address: str, schemes: Sequence[str], example: str) -> str | None:
    """Return the problem with an address that begins with none of the schemes; None if it begins with one.

    The text does not contain the address, because it may contain a password.
    """
    scheme, colon, rest = address.partition(":")
    # A scheme alone, such as `unix://`, names no address.
    if colon and scheme in schemes and rest.strip("/"):
        return None
    return f"must begin with its scheme, such as {example}; there are: {', '.join(f'{each}:' for each in schemes)}"
