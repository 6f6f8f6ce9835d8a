"""Serves `GET /metrics` for a command that keeps running (`sidecar ramp-watchdog`), in a separate thread.

The HTTP server of the standard library is sufficient, because Prometheus asks every few seconds. Only commands with a
metrics address import this module.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from socketserver import ThreadingTCPServer
from typing import Final

from sidecar.cli.subagent.client import CannotOperate, OperatorExit

PATH: Final = "/metrics"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SECONDS: Final = 5.0
"""The longest time for one request, so that a silent client does not occupy a thread for ever."""
IPV6: Final = 6


class _Server(ThreadingTCPServer):
    """The server. Not `HTTPServer`, which looks up the name of its address and may wait for DNS.

    Args:
        host: an IP address.
        port: the port; 0: any free one.
        text: returns the metrics; called in a thread for each request.
    """

    # A restarted watchdog must not wait until the system releases the address.
    allow_reuse_address = True
    # A request that hangs must not keep the process from ending.
    daemon_threads = True

    def __init__(self, host: str, port: int, text: Callable[[], str]) -> None:
        if ip_address(host).version == IPV6:
            self.address_family = socket.AF_INET6
        self.text = text
        super().__init__((host, port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    """Answers one request on each connection."""

    server: _Server
    timeout = SECONDS

    def do_GET(self) -> None:
        """Answer with the metrics, or with 404 for another path."""
        is_metrics = self.path.partition("?")[0] == PATH
        body = (self.server.text() if is_metrics else f"there is: {PATH}\n").encode()
        self.send_response(200 if is_metrics else 404)
        self.send_header("content-type", CONTENT_TYPE if is_metrics else "text/plain; charset=utf-8")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing: the output belongs to the command."""


@contextmanager
def serving_metrics(address: str, text: Callable[[], str]) -> Iterator[str]:
    """Serve while the context is open; yields the address, with the real port if port 0 was given.

    Raises:
        CannotOperate: the text is not an address, or the address cannot be used.
    """
    host, _, port = address.rpartition(":")
    try:
        server = _Server(host.strip("[]"), int(port), text)
    except (ValueError, OverflowError):
        why = f"--metrics-address {address!r} is not an IP address and a port, such as 127.0.0.1:9465"
        raise CannotOperate(why, OperatorExit.NOT_ASKED) from None
    except OSError as error:
        why = f"--metrics-address {address} cannot be used: {error.strerror}"
        raise CannotOperate(why, OperatorExit.NOT_ASKED) from None
    with server:
        thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        thread.start()
        try:
            yield f"{host}:{server.server_address[1]}"
        finally:
            # Only stops the loop of `serve_forever`; `with server` closes the socket afterwards.
            server.shutdown()
            thread.join()
