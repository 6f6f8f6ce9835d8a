"""Parses requests and writes responses of the ops listener (`ops_http.py`) with h11. One request a connection."""

import asyncio
from typing import Final, NamedTuple

import h11

READ_BYTES: Final = 4096


class NotHttp(Exception):
    """The input is not HTTP/1.1, or too large."""


class HttpRequest(NamedTuple):
    """The used part of a request's head."""

    method: bytes
    target: bytes
    accept: bytes


class HttpConnection:
    """One connection.

    Args:
        largest: the most bytes of a request's head.
    """

    def __init__(self, largest: int) -> None:
        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=largest)
        self._wants_body = True

    async def request(self, reader: asyncio.StreamReader) -> HttpRequest | None:
        """Return the request's head; None if the client left before it was complete. Raises `NotHttp`."""
        try:
            while True:
                event = self._connection.next_event()
                if isinstance(event, h11.Request):
                    accept = b", ".join(value for name, value in event.headers if name == b"accept")
                    self._wants_body = event.method != b"HEAD"
                    return HttpRequest(event.method, event.target, accept)
                # The client has closed the connection before its request was complete.
                if event is not h11.NEED_DATA:
                    return None
                # At the end of the stream this is empty, which h11 takes as the end of the connection.
                self._connection.receive_data(await reader.read(READ_BYTES))
        except h11.RemoteProtocolError as problem:
            raise NotHttp from problem

    def answer(self, status: int, content_type: str, body: bytes) -> bytes:
        """Return the bytes of a complete response; for HEAD only those of its head."""
        # One request for each connection, so that an idle client keeps no place.
        headers = [("content-type", content_type), ("content-length", str(len(body))), ("connection", "close")]
        sent = [h11.Data(data=body)] if self._wants_body else []
        events = (h11.Response(status_code=status, headers=headers), *sent, h11.EndOfMessage())
        return b"".join(self._connection.send(event) or b"" for event in events)
