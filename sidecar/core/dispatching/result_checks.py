"""Collects the result that one attempt reports, and checks it before the consumer-agent can receive it (SX-53).

`run_attempt` passes each message of the runner to a collector as it arrives, so that a result that is too large or
malformed ends the attempt at once.
"""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

import msgspec

from sidecar.core.decoding import DecodeError, from_json
from sidecar.core.definitions.cards.card import AgentDefinition
from sidecar.core.dispatching.harmless_text import harmless
from sidecar.core.dispatching.outcomes import Answer, Component, Usage
from sidecar.core.dispatching.questions import Asked, problem_of
from sidecar.core.json_schemas import validator_of
from subagents_errors import CallFailure

INLINE_COMPONENT: Final = re.compile(r"<component\b|```\s*json\b", re.IGNORECASE)
"""Component data inside a narration, as the legacy system wrote it; refused (PC1-FR-10a, PC1-D-50)."""


class ResultLimits(msgspec.Struct, frozen=True):
    """Limits of the result of one attempt.

    Attributes:
        narration: characters of text.
        component: characters of JSON in one component.
        components: number of components.
        total: UTF-8 bytes of narration and components together.
        events: number of events, of any kind.
        silence: longest pause between two events; None: no limit.
    """

    narration: int = 256 * 1024
    component: int = 256 * 1024
    components: int = 32
    total: int = 1024 * 1024
    events: int = 100_000
    silence: timedelta | None = None


MOST_TOKENS: Final = 10**12
"""Upper limit of a reported token count: more than any model uses, and small enough for the record."""


class InvalidResult(Exception):
    """The attempt's result breaks its contract. `detail` is for the operator only."""

    def __init__(self, reason: CallFailure, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class ResultCollector:
    """The result of one running attempt so far.

    Args:
        on_changed: called once, if hidden characters or special tokens were removed from the text.

    Attributes:
        most_events: limit of reported events, of any kind.
        usage: the newest reported token counts.
    """

    def __init__(
        self, definition: AgentDefinition, limits: ResultLimits, on_changed: Callable[[], object] = lambda: None
    ) -> None:
        self._definition = definition
        self._on_changed: Callable[[], object] | None = on_changed
        self._limits = limits
        self._parts: list[str] = []
        self._length = 0
        self._bytes = 0
        self._components: list[Component] = []
        # The cached result of `_narration`.
        self._read: tuple[str, bool] | None = None
        self.most_events = limits.events
        self.usage: Usage | None = None

    def refuse_flood(self) -> None:
        """Raise `InvalidResult`. The caller counts the events, because progress reports do not come here."""
        raise InvalidResult(CallFailure.RESULT_TOO_LARGE, f"more than {self._limits.events} events")

    def add_narration(self, text: str) -> None:
        """Add a piece of text. Raises `InvalidResult` if it becomes too long."""
        # Checked with each piece: an endless narration must be stopped while it grows, not when it is complete.
        self._length += len(text)
        if self._length > self._limits.narration:
            raise InvalidResult(CallFailure.RESULT_TOO_LARGE, f"narration over {self._limits.narration} characters")
        self._count_bytes(text)
        self._parts.append(text)
        self._read = None

    def add_component(self, component: Component) -> None:
        """Add a component. Raises `InvalidResult` if it is unknown, too large, or does not fit its schema."""
        # Limits before the schema: the cost of a check must not depend on what a sub-agent sends.
        if len(self._components) >= self._limits.components:
            raise InvalidResult(CallFailure.RESULT_TOO_LARGE, f"more than {self._limits.components} components")
        if max(len(component.component_data_json), len(component.tool_input_json)) > self._limits.component:
            raise InvalidResult(CallFailure.RESULT_TOO_LARGE, f"component {component.name!r} is too large")
        self._count_bytes(component.component_data_json, component.tool_input_json, component.name)
        check_component(component, self._definition.component_schemas_json)
        self._components.append(component)

    def _count_bytes(self, *texts: str) -> None:
        """Limit the outcome's size on the wire: one message carries all outcomes of a dispatch."""
        for text in texts:
            self._bytes += _bytes_of(text)
        if self._bytes > self._limits.total:
            raise InvalidResult(CallFailure.RESULT_TOO_LARGE, f"over {self._limits.total} bytes in all")

    def answer(self, *, data_unavailable: bool) -> Answer:
        """Return the complete answer. Raises `InvalidResult` if the narration contains component data."""
        narration, holds_data = self._read or self._narration()
        # Refused and not cut out: what remained could be half a sentence, and its data would be lost unnoticed.
        if holds_data:
            raise InvalidResult(CallFailure.RESULT_INVALID, "the narration holds inline component JSON")
        return Answer(narration, tuple(self._components), data_unavailable)

    def partial(self) -> Answer:
        """Return the answer so far, marked as incomplete, for an attempt whose budget ran out."""
        return msgspec.structs.replace(self.evidence(), data_unavailable=True)

    def evidence(self) -> Answer:
        """Return the answer so far. A narration that contains component data is left out."""
        narration, holds_data = self._read or self._narration()
        return Answer("" if holds_data else narration, tuple(self._components))

    def _narration(self) -> tuple[str, bool]:
        """Return the narration and whether it contains component data; cached until more text is added."""
        narration = "".join(self._parts)
        # Most answers are one paragraph of ASCII without special characters. These tests save the call for them.
        # `<` and `[` begin the special tokens that `harmless` breaks.
        if not (narration.isascii() and narration.isprintable()) or "<" in narration or "[" in narration:
            narration = self._shown(narration)
        self._read = narration, holds_component_data(narration)
        return self._read

    def question(self, asked: Asked) -> Asked:
        """Return the question in the form for display. Raises `InvalidResult` if it is not valid."""
        return fit(msgspec.structs.replace(asked, text=self._shown(asked.text)))

    def _shown(self, text: str) -> str:
        """Return the text that the consumer-agent receives. The original text stays in the attempt's frames."""
        # A value that is no text is not read here; the checks of the question refuse it.
        if self._definition.verbatim_text or type(text) is not str:
            return text
        shown = harmless(text)
        if shown is not text and self._on_changed is not None:
            self._on_changed()
            # Once for each attempt: operators count changed answers, not changed pieces.
            self._on_changed = None
        return shown


def _bytes_of(text: str) -> int:
    """Return the length in UTF-8 bytes. Raises `InvalidResult` for a value that UTF-8 cannot encode."""
    # A runner in this process may send any object. A subclass of `str` may behave differently from the text that it
    # shows.
    if type(text) is not str:
        raise InvalidResult(CallFailure.RESULT_INVALID, f"a {type(text).__name__} in the place of a text")
    try:
        return len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        raise InvalidResult(CallFailure.RESULT_INVALID, "a text with half a surrogate pair is not Unicode") from None


def fit(asked: Asked) -> Asked:
    """Return the question unchanged if it is valid. Raises `InvalidResult` otherwise."""
    problem = problem_of(asked)
    if problem:
        raise InvalidResult(CallFailure.RESULT_INVALID, problem)
    return asked


def usage_of(read: int, written: int, cached: int | None) -> Usage:
    """Return the reported token counts; negative ones become 0, and `cached` is at most `read`.

    Raises:
        InvalidResult: a count is not an integer, or exceeds `MOST_TOKENS`.
    """
    for count in (read, written, cached or 0):
        # Not `isinstance`: a boolean is an `int`, and a subclass may behave differently from the number that it shows.
        if type(count) is not int or count > MOST_TOKENS:
            raise InvalidResult(CallFailure.RESULT_INVALID, "reported tokens that are no whole number, or too many")
    # Clamped and not refused: a wrong count of tokens is no reason to lose an answer.
    read = max(0, read)
    return Usage(read, max(0, written), None if cached is None else min(max(0, cached), read))


def check_component(component: Component, schemas: Mapping[str, str]) -> None:
    """Check one component against the schema that the card declares for its name. Source: DESIGN section 5.

    Raises:
        InvalidResult: there is no such schema, the data does not match it, or a text is not JSON.
    """
    schema = schemas.get(component.name)
    if schema is None:
        raise InvalidResult(CallFailure.RESULT_INVALID, f"the card declares no component {component.name!r}")
    data = _decoded(component.component_data_json, component.name)
    # Only parsed: the input of a `render_*` tool has a schema of its own, which its runner has applied.
    _decoded(component.tool_input_json, component.name)
    if not validator_of(schema).is_valid(data):
        raise InvalidResult(CallFailure.RESULT_INVALID, f"component {component.name!r} does not fit its schema")


def holds_component_data(narration: str) -> bool:
    """Return whether a narration contains structured data: a legacy marker, a JSON block, or only JSON."""
    # Substring tests first: the pattern takes microseconds per kilobyte, and few narrations contain these characters.
    if ("<" in narration or "```" in narration) and INLINE_COMPONENT.search(narration):
        return True
    stripped = narration.strip()
    if not (stripped.startswith(("{", "[")) and stripped.endswith(("}", "]"))):
        return False
    try:
        return isinstance(from_json(stripped), (dict, list))
    except DecodeError:
        return False


def _decoded(text: str, name: str) -> Any:
    try:
        return from_json(text)
    except DecodeError:
        raise InvalidResult(CallFailure.RESULT_INVALID, f"component {name!r} is not JSON") from None
