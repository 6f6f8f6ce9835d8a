"""HTTP on the loopback, without TLS."""

from typing import Any

import httpx


def plain_client(**options: Any) -> httpx.AsyncClient:
    """Return a client that reads no certificates, which takes each new client 20 ms of a core, and asks no proxy."""
    return httpx.AsyncClient(trust_env=False, verify=False, **options)
