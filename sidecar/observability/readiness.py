"""Decides whether the process accepts new turns, and collects the details that operators read on `/readyz`."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sidecar.observability import event_names
from sidecar.observability.logging import StructuredLog


class Readiness:
    """Holds the reasons against readiness; the process is ready while there is none.

    Args:
        on_change: called with the new state after each change; must not raise or block.
    """

    def __init__(self, on_change: Callable[[bool], None]) -> None:
        self._on_change = on_change
        # Not ready from the beginning: health is asked as soon as the first listener opens.
        self._against: dict[str, str] = {"start": "still starting"}
        self._sections: dict[str, Callable[[], Any]] = {}
        self._concerns: list[Callable[[], Iterable[str]]] = []
        self._log = StructuredLog("sidecar.health")

    @property
    def ready(self) -> bool:
        """Whether new turns are accepted."""
        return not self._against

    @property
    def against(self) -> Mapping[str, str]:
        """The reasons against readiness: a short name, and a sentence."""
        return dict(self._against)

    @property
    def attention(self) -> tuple[str, ...]:
        """Problems that an operator should look at although turns are accepted, one sentence each."""
        # Each source is asked again, because a problem may be over since the last request.
        return tuple(sentence for read in self._concerns for sentence in read())

    def block(self, what: str, why: str) -> None:
        """Add a reason against readiness."""
        before = self.ready
        self._against[what] = why
        self._tell(before)

    def clear(self, what: str) -> None:
        """Remove a reason against readiness. Unknown reasons are ignored."""
        before = self.ready
        self._against.pop(what, None)
        self._tell(before)

    def section(self, name: str, read: Callable[[], Any]) -> None:
        """Add a section to `/readyz`. `read` is called for each request and returns a JSON value."""
        self._sections[name] = read

    def watch(self, read: Callable[[], Iterable[str]]) -> None:
        """Add a source of `attention`: `read` is called for each request, and must not block."""
        self._concerns.append(read)

    def detail(self) -> dict[str, Any]:
        """Return all details for `/readyz`."""
        # Read at each request and not kept: a section shows the present state, or it would mislead in an incident.
        shown = {"ready": self.ready, "against": self.against, "attention": self.attention}
        return shown | {name: read() for name, read in self._sections.items()}

    def _tell(self, before: bool) -> None:
        """Log and report a change of readiness; `before` is the state before it."""
        # Only changes are told: a second reason against readiness is no news for health.
        if before != self.ready:
            text = "new turns are taken" if self.ready else "no new turns are taken"
            self._log.info(event_names.READY_CHANGED, text, **self.against)
            self._on_change(self.ready)
