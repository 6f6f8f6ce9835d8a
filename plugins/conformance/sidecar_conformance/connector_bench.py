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
    """Refuses the request because of a missing principal. Over HTTP: status 400 with code `missing_principal`."""
    PRINCIPAL_MISMATCH = "principal_mismatch"
    """Refuses the request because of another user's credential. Over HTTP: 403 with code `principal_mismatch`."""
    FAIL = "fail"
    """Fails with an error of its own. Over HTTP: status 500."""
    TRUNCATE = "truncate"
    """Sends a part of the answer, then breaks the connection."""
    HANG = "hang"
    """Accepts the request and never answers."""


@dataclass(frozen=True, slots=True)
class SeenCall:
    """One request as the service saw it.

    Attributes:
        principal: the user in the request.
        domain_type: the domain type of the tool.
        enricher_id: the enricher of the tool.
        arguments: the decoded arguments.
        nonce: the nonce; None if the request had none.
        traceparent: the trace header; None if the request had none.
    """

    principal: str
    domain_type: str
    enricher_id: str
    arguments: Mapping[str, Any]
    nonce: str | None
    traceparent: str | None


class ConnectorBench(ABC):
    """A scripted data service, and connectors that call it. Plugin authors subclass it.

    Attributes:
        script: what the service does with the next requests; the suite sets it.
        body: the bytes that `ANSWER` sends; the suite sets it.
        form: the encoding that the connector reports for answers.
        seen: all requests so far, including refused and unanswered ones; oldest first.
    """

    script: ServiceScript = ServiceScript.ANSWER
    body: bytes = b"{}"
    form: EnvelopeEncoding = EnvelopeEncoding.JSON
    seen: Sequence[SeenCall] = ()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the service while the block runs; all other methods are called inside. Override it to start a service."""
        yield

    @abstractmethod
    def make(self, max_body_bytes: int) -> Connector:
        """Return a new connector that accepts answers of at most `max_body_bytes`, which is at least 1024."""

    @property
    @abstractmethod
    def endpoint(self) -> str:
        """The endpoint of the service, in the form of a tool entry."""

    @property
    @abstractmethod
    def endpoint_of_nobody(self) -> str:
        """An endpoint at which no server listens."""

    @abstractmethod
    async def asked(self, times: int) -> None:
        """Wait until the service has received this number of requests."""
