"""The addresses to which commands may send a secret, and how they connect to them."""

import re
from typing import Final

NEAR: Final = re.compile(r"unix:|(dns:///)?(localhost|127\.[0-9.]+|\[::1\]):[0-9]+\Z")
"""Addresses to which a token or boot secret may be sent without encryption: only those on this host."""
NO_PROXY: Final = (("grpc.enable_http_proxy", 0),)
"""Otherwise gRPC sends even requests for loopback addresses, with the secret, to a proxy that the environment names."""


def refusal(target: str, secret: str) -> str:
    """Return why `secret` must not be sent to this address without encryption; empty if it may be."""
    if NEAR.match(target):
        return ""
    return f"{target} is neither a Unix socket nor a loopback address, so the {secret} would be sent unencrypted"
