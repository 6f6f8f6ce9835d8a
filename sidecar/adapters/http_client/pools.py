"""Connections of an HTTP client: one pool, and another one after certificates have changed."""

import ssl
from functools import cache

import certifi
import httpcore

from sidecar.adapters.http_client.network import BoundedBackend
from subagents_tls.files import TlsFiles
from subagents_tls.pools import RotatingPool


@cache
def public_context() -> ssl.SSLContext:
    """Return the TLS context of the public authorities. It is created once, which takes 20 ms."""
    return ssl.create_default_context(cafile=certifi.where())


def tls_context(files: TlsFiles) -> ssl.SSLContext:
    """Return the TLS context that verifies servers and presents the client certificate.

    Raises:
        OSError: a file cannot be read or is not PEM.
    """
    if not files.all:
        return public_context()
    context = ssl.create_default_context(cafile=str(files.ca_file or certifi.where()))
    if files.certificate_file is not None and files.key_file is not None:
        # With a password, even a wrong one: otherwise OpenSSL asks at the terminal for that of an encrypted key, and
        # the start hangs.
        context.load_cert_chain(files.certificate_file, files.key_file, password=lambda: b"")
    return context


def http_pools(
    files: TlsFiles, most: int = 64, idle: int = 16, idle_seconds: float = 4.0
) -> RotatingPool[httpcore.AsyncConnectionPool]:
    """Return the connections of a client.

    Args:
        files: certificates for https.
        most: connections at a time.
        idle: connections that are kept open between requests.
        idle_seconds: for how long an idle connection is kept open.

    Raises:
        OSError, TlsFilesProblem: certificates cannot be used.
    """

    def open_pool(context: ssl.SSLContext) -> httpcore.AsyncConnectionPool:
        return httpcore.AsyncConnectionPool(
            ssl_context=context,
            max_connections=most,
            max_keepalive_connections=idle,
            keepalive_expiry=idle_seconds,
            network_backend=BoundedBackend(),
        )

    return RotatingPool(files, tls_context, open_pool, httpcore.AsyncConnectionPool.aclose)
