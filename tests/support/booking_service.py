"""A data service over real HTTP whose one tool changes something each time it is asked: it counts bookings."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

TOOL: Final = """
  - id: book_table
    description: Books a table.
    endpoint: {endpoint}
    domain_type: bookings
    enricher_id: book_table
    operation: {operation}
    payload_schema: {{type: object}}
    timeout: 5s
"""


@dataclass
class BookingService:
    """Books once for each request, whatever its idempotency key is: a service that does not know keys.

    Attributes:
        keys: the idempotency key of each booking, in order.
        answers: let go on with an answer; while it is not set, the service books and says nothing.
    """

    endpoint: str = ""
    keys: list[str] = field(default_factory=list)
    booked: asyncio.Event = field(default_factory=asyncio.Event)
    answers: asyncio.Event = field(default_factory=asyncio.Event)

    def tool(self, operation: str = "effect") -> str:
        """Return the entry of the tool for `agent_config.yaml`."""
        return TOOL.format(endpoint=self.endpoint, operation=operation)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[1:-2]
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head)}
            asked = json.loads(await reader.readexactly(int(headers["content-length"])))
            self.keys.append(headers.get("idempotency-key", ""))
            self.booked.set()
            await self.answers.wait()
            envelope = {
                "domain_type": "bookings",
                "enricher_id": "book_table",
                "version": "1.0.0",
                "principal": asked["principal"],
                "status": "ok",
                "payload": {"booked": len(self.keys)},
            }
            body = json.dumps(envelope).encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body) + body)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the sidecar was killed
        finally:
            writer.close()


@asynccontextmanager
async def booking_service() -> AsyncIterator[BookingService]:
    """Serve on a free port of the loopback."""
    service = BookingService()
    service.answers.set()
    server = await asyncio.start_server(service.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    service.endpoint = f"http://{host}:{port}/v1/book"
    try:
        yield service
    finally:
        service.answers.set()
        server.close()
