"""A token endpoint of RFC 8693 and a data service behind it, over HTTP on the loopback."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from sidecar.adapters.connector_rest.settings import RestSettings
from sidecar.adapters.token_exchange.exchange import ACCESS_TOKEN

GOOD: dict[str, Any] = {"token_type": "Bearer", "issued_token_type": ACCESS_TOKEN, "expires_in": 300}


@dataclass
class Services:
    """A token endpoint at `/token`, and a data service everywhere else, on the loopback.

    Attributes:
        forms: of each exchange.
        seen: `authorization` of each call of the data service.
        basic: `authorization` of each exchange.
        answer: fields of the next tokens, over `GOOD`.
        raw: answers the exchanges instead: status and body.
        may_answer: exchanges wait for it.
        news: set when an exchange has come.
        open: connections that are served.
    """

    address: str = ""
    forms: list[dict[str, str]] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    basic: list[str] = field(default_factory=list)
    answer: dict[str, Any] = field(default_factory=dict)
    raw: tuple[str, bytes] | None = None
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    open: set[asyncio.StreamWriter] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection with one request."""
        self.open.add(writer)
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
        authorization = next((line[15:] for line in head.split("\r\n") if line.startswith("authorization: ")), "")
        body = await reader.readexactly(int(headers["content-length"]))
        status, answer = "200 OK", b'{"an":"envelope"}'
        if head.startswith("POST /token "):
            form = {name: values[0] for name, values in parse_qs(body.decode(), strict_parsing=True).items()}
            self.forms.append(form)
            self.news.set()
            self.basic.append(authorization)
            await self.may_answer.wait()
            token = {**GOOD, "access_token": f"for-{form['subject_token']}-{len(self.forms)}", **self.answer}
            status, answer = self.raw or ("200 OK", json.dumps(token).encode())
        else:
            self.seen.append(authorization)
        writer.write(f"HTTP/1.1 {status}\r\ncontent-length: {len(answer)}\r\nconnection: close\r\n\r\n".encode())
        writer.write(answer)
        await writer.drain()
        writer.close()
        self.open.discard(writer)

    def settings(self, folder: Path, **more: Any) -> RestSettings:
        """Return the settings of a connector `rest` that exchanges tokens here."""
        return RestSettings(**{**self.configured(folder), **more})

    def configured(self, folder: Path) -> dict[str, Any]:
        """Return what any connector is told to exchange tokens here."""
        secret = folder / "secret"
        secret.write_text("s3 cret\n")
        return {
            "token_endpoint": f"http://{self.address}/token",
            "token_audience": "ccs",
            "token_client_id": "the sidecar",
            "token_client_secret_file": str(secret),
        }


@asynccontextmanager
async def services() -> AsyncIterator[Services]:
    """Listen on the loopback; exchanges are answered at once."""
    made = Services()
    made.may_answer.set()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        made.address = f"{host}:{port}"
        yield made
    for writer in made.open:  # of clients that did not wait for an answer
        writer.close()
