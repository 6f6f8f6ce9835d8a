"""The pages of the ops address."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from sidecar.observability.metrics import Metrics
from sidecar.observability.readiness import Readiness
from sidecar.observability.redaction import Redactor
from sidecar.rpc.ops_http import Page, Render

if TYPE_CHECKING:
    from sidecar.observability.exposition import RecentExposition

JSON: Final = "application/json"
OK: Final = 200
UNAVAILABLE: Final = 503


@dataclass(frozen=True)
class RecentMetrics:
    """The sources of `/metrics`, and the maximum age of the page in seconds."""

    metrics: Metrics
    monotonic: Callable[[], float]
    age: float

    @cached_property
    def recent(self) -> "RecentExposition":
        """The page. Created on first use, because its library takes longer to load than the rest of the start."""
        from sidecar.observability.exposition import RecentExposition  # noqa: PLC0415  loads slowly, see above

        return RecentExposition(self.metrics, self.monotonic, self.age)


def pages(metrics: RecentMetrics, readiness: Readiness, redactor: Redactor) -> Mapping[str, Render]:
    """Return the page of each path. Every page has passed the redactor, or consists of fixed labels and numbers."""

    async def numbers(accept: str) -> Page:
        page, content_type = metrics.recent.page(accept)
        return Page(OK, content_type, page)

    async def ready(accept: str) -> Page:
        # `default`: a section must not break the page by a value that JSON lacks. The redactor cleans the whole text.
        detail = redactor.clean(json.dumps(readiness.detail(), indent=2, default=str))
        status = OK if readiness.ready else UNAVAILABLE
        return Page(status, JSON, f"{detail}\n".encode())

    async def alive(accept: str) -> Page:
        # Always OK: that this line runs shows that the event loop is alive. Only a blocked event loop, which cannot
        # answer, is a reason to restart the process.
        return Page(OK, JSON, b'{"alive": true}\n')

    return {"/metrics": numbers, "/readyz": ready, "/healthz": alive}
