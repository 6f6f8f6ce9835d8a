"""How the connector suite drives the data service that a connector calls."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum, unique
from typing import Any

from sidecar.core.envelopes.forms import EnvelopeEncoding
from sidecar.policy.protocols import Connector


@unique
class ServiceScript(Enum):
    """What the service does with each request."""

    ANSWER = "answer"
    """Sends the bench's `body`, byte for byte, as a successful answer."""
    MISSING_PRINCIPAL = "missing_principal"
    """Refuses: no principal. Over HTTP: 400 with code `missing_principal`."""
    PRINCIPAL_MISMATCH = "principal_mismatch"
    """Refuses: another user's credential. Over HTTP: 403 with code `principal_mismatch`."""
    FAIL = "fail"
    """Fails by itself. Over HTTP: 500."""
    TRUNCATE = "truncate"
    """Begins to answer and breaks the connection off."""
    HANG = "hang"
    """Takes the request and never answers."""


@dataclass(frozen=True, slots=True)
class SeenCall:
    """One request as the service saw it.

    Attributes:
        nonce: None if the request carried none.
        traceparent: None if the request carried none.
    """

    principal: str
    domain_type: str
    enricher_id: str
    arguments: Mapping[str, Any]
    nonce: str | None
    traceparent: str | None


class ConnectorBench(ABC):
    """A scripted data service, and connectors that call it. A plugin's author writes one.

    Attributes:
        script: what the service does now; the suite sets it.
        body: what `ANSWER` sends; the suite sets it.
        form: what the connector says its answers' bytes are.
        seen: every request so far, also those that were refused or never answered; oldest first.
    """

    script: ServiceScript = ServiceScript.ANSWER
    body: bytes = b"{}"
    form: EnvelopeEncoding = EnvelopeEncoding.JSON
    seen: Sequence[SeenCall] = ()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Have the service there; all else happens inside. Override it if something must be started."""
        yield

    @abstractmethod
    def make(self, max_body_bytes: int) -> Connector:
        """Return a new connector whose largest accepted answer is `max_body_bytes`, at least 1024."""

    @property
    @abstractmethod
    def endpoint(self) -> str:
        """Where the service is, as a tool entry would name it."""

    @property
    @abstractmethod
    def endpoint_of_nobody(self) -> str:
        """An endpoint without a server."""

    @abstractmethod
    async def asked(self, times: int) -> None:
        """Return once the service has seen this many requests."""
