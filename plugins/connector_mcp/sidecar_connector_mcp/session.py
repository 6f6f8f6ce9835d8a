"""One session with a server. It has its own task, because the SDK's client must be left in the task that entered it."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from mcp import Client
from mcp.client import ClientRequestContext
from mcp.client._transport import TransportStreams
from mcp_types import (
    CallToolRequest,
    CallToolRequestParams,
    ElicitRequestParams,
    ElicitResult,
    Implementation,
)

from sidecar.core.faults import Fault, remedy_for
from sidecar.policy.faults import errno_of
from sidecar_connector_mcp.definitions import Raw, UnusableListing, digests_of, listed
from sidecar_connector_mcp.questions import Interview
from sidecar_connector_mcp.wire import Wire

CLOSE_SECONDS: Final = 1.0
CLIENT: Final = Implementation(name="dispatch-sidecar", version="1")
SETTING: Final = "the server's settings in [connectors.mcp.servers]"

OpenTransport = Callable[[Wire], AbstractAsyncContextManager[TransportStreams]]


class Session:
    """A session with an MCP server, which opens in the background. It ends when `spoil` or `close` is called.

    Args:
        place: name of the server, for messages.
        open_transport: connects to the server.
        wire: counters and flags that the transport sets.
        open_seconds: maximum time to connect, negotiate and list the tools.
        definitions_seconds: how long the list of tools is valid.
        questions: whether the server may ask the user.

    Attributes:
        usable: whether new calls may use the session.
        busy: number of calls that use the session now.
        fault: why the session ended; None if it has not ended, or was closed on purpose.
    """

    def __init__(
        self,
        place: str,
        open_transport: OpenTransport,
        wire: Wire,
        open_seconds: float,
        definitions_seconds: float,
        *,
        questions: bool = False,
    ) -> None:
        self.place, self.wire, self.questions = place, wire, questions
        self.usable, self.busy = True, 0
        self.fault: Fault | None = None
        self._open_transport = open_transport
        self._open_seconds, self._definitions_seconds = open_seconds, definitions_seconds
        self._client: Client | None = None
        self._digests: Mapping[str, str] = {}
        self._listed_at = 0.0
        self._opened, self._closing = asyncio.Event(), asyncio.Event()
        self._asking: set[asyncio.Task[Raw]] = set()
        self._interviews: list[Interview] = []
        wire.spoiled = self.spoil
        self.task = asyncio.create_task(self._run())

    async def opened(self) -> bool:
        """Wait until the session is open or has failed; return whether it is open."""
        await self._opened.wait()
        return self._client is not None

    async def digests(self) -> Mapping[str, str]:
        """Return tool name to digest of the server's tools; list the tools again if the list is too old."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._listed_at >= self._definitions_seconds:
            self._digests = digests_of(await listed(self._entered().session))
            self._listed_at = loop.time()
        return self._digests

    async def call(
        self, tool: str, arguments: dict[str, Any], meta: Mapping[str, Any], interview: Interview
    ) -> dict[str, Any]:
        """Send one `tools/call` and return its unchanged result.

        `ClientSession.call_tool` is unsuitable: it validates the structured content with the server's schema, whose
        patterns may take for ever, and it repeats a call that the server has refused.
        """
        self.wire.status = 0  # what a server refused while the protocol was negotiated explains no call
        said = {"name": tool, "arguments": arguments, "_meta": meta, **interview.retry()}
        params = CallToolRequestParams.model_validate(said)
        asking = asyncio.create_task(self._entered().session.send_request(CallToolRequest(params=params), Raw))
        self._asking.add(asking)
        self._interviews.append(interview)
        asking.add_done_callback(self._asking.discard)
        try:
            return (await asyncio.shield(asking)).root
        except asyncio.CancelledError:
            # The SDK still tells the server, for which it may wait seconds; the caller does not wait for that.
            asking.add_done_callback(_let_go)
            asking.cancel()
            if self.questions:  # what the server asks from now on may be of this call: no later call shall answer it
                self.usable = False
            raise
        finally:
            self._interviews.remove(interview)

    def spoil(self) -> None:
        """End the session and accept no further calls; calls in flight fail."""
        self.usable = False
        self._closing.set()

    async def close(self) -> None:
        """End the session and wait for its end; takes up to two seconds if the server does not cooperate."""
        self.spoil()
        with contextlib.suppress(TimeoutError, asyncio.CancelledError):
            await asyncio.wait_for(asyncio.shield(self.task), CLOSE_SECONDS)
        self.task.cancel()
        for asking in list(self._asking):
            asking.cancel()
        await asyncio.gather(self.task, *self._asking, return_exceptions=True)

    async def _elicited(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        """Answer a request of the server. It names no call: of several calls it belongs to none."""
        del context  # the SDK passes it by name
        if len(self._interviews) != 1:
            return ElicitResult(action="cancel")
        return self._interviews[0].respond(params)

    def _entered(self) -> Client:
        if self._client is None:
            raise ConnectionError("the session is closed")
        return self._client

    async def _run(self) -> None:
        asks = self._elicited if self.questions else None  # without it, servers are told that no user can be asked
        try:
            async with (
                asyncio.timeout(self._open_seconds) as opening,
                Client(self._open_transport(self.wire), client_info=CLIENT, elicitation_callback=asks) as client,
            ):
                self._digests = digests_of(await listed(client.session))
                self._listed_at = asyncio.get_running_loop().time()
                self._client = client
                opening.reschedule(None)
                self._opened.set()
                await self._closing.wait()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001  task groups of the SDK raise groups of anything
            if self.usable or self._client is None:
                self.fault = self._fault_of(error)
        finally:
            self.usable, self._client = False, None
            self._opened.set()

    def _fault_of(self, error: BaseException) -> Fault:
        """Return what ended the session, in words that hold nothing of what the server wrote."""
        leaf = _leaf_of(error)
        errno = errno_of(leaf) or (f"HTTP {self.wire.status}" if self.wire.status else type(leaf).__name__)
        if isinstance(leaf, UnusableListing):
            return Fault(self.place, self.place, str(leaf), "correct the server's tools/list")
        if isinstance(leaf, TimeoutError):
            remedy = f"the server did not open a session within {self._open_seconds:g} s: see its log"
            return Fault(self.place, self.place, "ETIMEDOUT", remedy)
        return Fault(self.place, self.place, errno, remedy_for(errno, SETTING))


def _let_go(asked: "asyncio.Task[Raw]") -> None:
    if not asked.cancelled():
        asked.exception()  # looked at, so that asyncio does not report it


def _leaf_of(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
