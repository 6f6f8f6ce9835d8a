"""The sessions with one server: one for each user over HTTP, one process for all users over stdio."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import quote

from sidecar.core.decoding import from_ascii
from sidecar.core.faults import Fault
from sidecar.core.identifiers import Principal
from sidecar.policy.user_headers import ON_BEHALF_OF
from sidecar_connector_mcp.http_transport import over_http
from sidecar_connector_mcp.session import OpenTransport, Session
from sidecar_connector_mcp.settings import McpSettings, ServerSettings
from sidecar_connector_mcp.stdio_transport import over_stdio
from sidecar_connector_mcp.wire import Wire

LONGEST_TOKEN: Final = 16 * 1024


class NoSession(Exception):
    """No session can be opened; `fault` has the reason."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.in_words())
        self.fault = fault


class Server:
    """Opens and keeps the sessions with one server. Servers share nothing, so a hanging server affects no other server.

    A session over HTTP belongs to one user, so that data which the server keeps in the session cannot reach another
    user.
    """

    def __init__(self, name: str, settings: ServerSettings, common: McpSettings) -> None:
        self._place = f"mcp:{name}"
        self._settings, self._common = settings, common
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._ending: set[asyncio.Task[None]] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._started_at: float | None = None
        self._closed = False

    @asynccontextmanager
    async def session_for(self, principal: Principal) -> AsyncIterator[Session]:
        """Yield an open session for a user.

        Raises:
            NoSession: none can be opened now.
        """
        key = principal if self._settings.url is not None else ""
        session = self._sessions.get(key)
        if session is None or not session.usable:
            session = await self._new(key, principal)
        self._sessions.move_to_end(key)
        session.busy += 1
        try:
            if not await session.opened():
                raise NoSession(session.fault or Fault(self._place, self._place, "closed"))
            yield session
        finally:
            session.busy -= 1
            self._rest(key, session)

    async def close(self) -> None:
        """End all sessions."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        for key in list(self._sessions):
            self._end(key)
        await asyncio.gather(*self._ending, return_exceptions=True)

    async def _new(self, key: str, principal: Principal) -> Session:
        transport = await self._transport_for(principal)
        known = self._sessions.get(key)
        if known is not None and known.usable:  # another call of this user came first while the token was read
            return known
        if self._closed:
            raise NoSession(Fault(self._place, self._place, "closed", "the sidecar is shutting down"))
        self._end(key)
        self._make_room()
        wire = Wire(self._common.max_wire_bytes)
        seconds = self._common.open_seconds, self._settings.definitions_seconds
        session = Session(self._place, transport, wire, *seconds, questions=self._settings.questions)
        self._sessions[key] = session
        return session

    async def _transport_for(self, principal: Principal) -> OpenTransport:
        url = self._settings.url
        if url is None:
            self._pause_between_starts()
            return partial(over_stdio, self._settings)
        headers = {ON_BEHALF_OF: quote(principal, safe="")}
        if self._settings.token_file is not None:
            headers["authorization"] = f"Bearer {await self._token(self._settings.token_file)}"
        return lambda wire: over_http(url, headers, wire, self._common.open_seconds)

    def _pause_between_starts(self) -> None:
        """Refuse to start a program again at once, so that one that ends at each call does not use up the machine."""
        now = asyncio.get_running_loop().time()
        if self._started_at is not None and now - self._started_at < self._common.restart_seconds:
            remedy = f"the server has ended and is started again after {self._common.restart_seconds:g} s: see its log"
            raise NoSession(Fault(self._place, self._place, "server ended", remedy))
        self._started_at = now

    def _make_room(self) -> None:
        if len(self._sessions) < self._common.most_sessions:
            return
        idle = next((key for key, session in self._sessions.items() if not session.busy), None)
        if idle is None:
            remedy = "every session has a call: raise most_sessions in [connectors.mcp], or look why the server is slow"
            raise NoSession(Fault(self._place, self._place, f"{len(self._sessions)} sessions in use", remedy))
        self._end(idle)

    def _rest(self, key: str, session: Session) -> None:
        """End an unusable session; start the idle timer of an unused session over HTTP."""
        if self._sessions.get(key) is not session or session.busy:
            return
        if not session.usable:
            self._end(key)
            return
        if self._settings.url is not None and not self._closed:
            if (timer := self._timers.pop(key, None)) is not None:
                timer.cancel()
            wait = self._common.idle_seconds
            self._timers[key] = asyncio.get_running_loop().call_later(wait, self._end_idle, key, session)

    def _end_idle(self, key: str, session: Session) -> None:
        if self._sessions.get(key) is session and not session.busy:
            self._end(key)

    def _end(self, key: str) -> None:
        session = self._sessions.pop(key, None)
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        if session is not None:
            ending = asyncio.create_task(session.close())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    async def _token(self, file: Path) -> str:
        try:
            return await asyncio.to_thread(token_in, file)
        except (OSError, ValueError) as error:
            told = str(error) if type(error) is ValueError else type(error).__name__
            raise NoSession(Fault(self._place, str(file), told, f"correct token_file of {self._place}")) from None


def token_in(file: Path) -> str:
    """Return the bearer token. Raises `OSError` and `ValueError`, whose texts do not contain the file's content."""
    with file.open("rb") as opened:
        token = from_ascii(opened.read(LONGEST_TOKEN)).strip()
    if not token or not token.isprintable() or " " in token:
        raise ValueError("the token file holds no token")
    return token
