"""Gathers what one attempt reports, and checks it before the parent may take it (SX-53)."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import msgspec

from sidecar.core.decoding import DecodeError, from_json
from sidecar.core.definitions.cards.card import AgentDefinition
from sidecar.core.dispatching.outcomes import Answer, Component, Usage
from sidecar.core.dispatching.questions import Asked, problem_of
from sidecar.core.json_schemas import validator_of
from subagents_errors import CallFailure

INLINE_COMPONENT: Final = re.compile(r"<component\b|```\s*json\b", re.IGNORECASE)
"""Component data inside a narration, as the legacy path wrote it (PC1-FR-10a, PC1-D-50)."""


class ResultLimits(msgspec.Struct, frozen=True):
    """Bounds on what one attempt may bring. Characters of text; events of any kind; `total`: UTF-8 bytes of it all."""

    narration: int = 256 * 1024
    component: int = 256 * 1024
    components: int = 32
    total: int = 1024 * 1024
    events: int = 100_000
    silence: timedelta | None = None


MOST_TOKENS: Final = 10**12
"""More than any model reads or writes; the record holds no number of any size."""


class InvalidResult(Exception):
    """The attempt's result breaks its contract. `detail` is for the operator only."""

    def __init__(self, reason: CallFailure, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class ResultCollector:
    """What one attempt has brought so far.

    Attributes:
        most_events: of any kind that it may report.
        usage: as last reported.
    """

    def __init__(self, definition: AgentDefinition, limits: ResultLimits) -> None:
        self._definition = definition
        self._limits = limits
        self._parts: list[str] = []
        self._length = 0
        self._bytes = 0
        self._components: list[Component] = []
        self._read: tuple[str, bool] | None = None
        self.most_events = limits.events
        self.usage: Usage | None = None

    def refuse_flood(self) -> None:
        """Raise `InvalidResult`: there were more than `most_events`."""
        raise InvalidResult(CallFailure.RESULT_TOO_LARGE, f"more than {self._limits.events} events")

    def add_narration(self, text: str) -> None:
        """Add a piece of text. Raises `InvalidResult` if it becomes too long."""
        self._length += len(text)
        if self._length > self._limits.narration:
            raise InvalidResult(CallFailure.RESULT_TOO_LARGE, f"narration over {self._limits.narration} characters")
        self._count_bytes(text)
        self._parts.append(text)
        self._read = None

    def add_component(self, component: Component) -> None:
        """Add a component. Raises `InvalidResult` if it is unknown, too large, or does not fit its schema."""
        if len(self._components) >= self._limits.components:
            raise InvalidResult(CallFailure.RESULT_TOO_LARGE, f"more than {self._limits.components} components")
        if max(len(component.component_data_json), len(component.tool_input_json)) > self._limits.component:
            raise InvalidResult(CallFailure.RESULT_TOO_LARGE, f"component {component.name!r} is too large")
        self._count_bytes(component.component_data_json, component.tool_input_json, component.name)
        check_component(component, self._definition.component_schemas_json)
        self._components.append(component)

    def _count_bytes(self, *texts: str) -> None:
        """Count what the outcome will take on the wire: the outcomes of one dispatch travel in one message."""
        for text in texts:
            self._bytes += _bytes_of(text)
        if self._bytes > self._limits.total:
            raise InvalidResult(CallFailure.RESULT_TOO_LARGE, f"over {self._limits.total} bytes in all")

    def answer(self, *, data_unavailable: bool) -> Answer:
        """Return the whole. Raises `InvalidResult` if the narration holds component data."""
        narration, holds_data = self._read or self._narration()
        if holds_data:
            raise InvalidResult(CallFailure.RESULT_INVALID, "the narration holds inline component JSON")
        return Answer(narration, tuple(self._components), data_unavailable)

    def partial(self) -> Answer:
        """Return what is there, for a budget that ran out."""
        return msgspec.structs.replace(self.evidence(), data_unavailable=True)

    def evidence(self) -> Answer:
        """Return what is there; text that would not pass the check is left out."""
        narration, holds_data = self._read or self._narration()
        return Answer("" if holds_data else narration, tuple(self._components))

    def _narration(self) -> tuple[str, bool]:
        """Return the whole text, and whether it holds component data; looked at once until there is more of it."""
        narration = "".join(self._parts)
        self._read = narration, holds_component_data(narration)
        return self._read


def _bytes_of(text: str) -> int:
    """Return the length in UTF-8. Raises `InvalidResult` for what neither the wire nor the record can hold."""
    if type(text) is not str:
        raise InvalidResult(CallFailure.RESULT_INVALID, f"a {type(text).__name__} in the place of a text")
    try:
        return len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        raise InvalidResult(CallFailure.RESULT_INVALID, "a text with half a surrogate pair is not Unicode") from None


def fit(asked: Asked) -> Asked:
    """Return a question that can be passed on. Raises `InvalidResult` for any other."""
    problem = problem_of(asked)
    if problem:
        raise InvalidResult(CallFailure.RESULT_INVALID, problem)
    return asked


def usage_of(read: int, written: int, cached: int | None) -> Usage:
    """Return what was reported of tokens, none of them negative. Raises `InvalidResult` for what is no such number."""
    for count in (read, written, cached or 0):
        if type(count) is not int or count > MOST_TOKENS:
            raise InvalidResult(CallFailure.RESULT_INVALID, "reported tokens that are no whole number, or too many")
    read = max(0, read)
    return Usage(read, max(0, written), None if cached is None else min(max(0, cached), read))


def check_component(component: Component, schemas: Mapping[str, str]) -> None:
    """Check one component against the card's schemas, by name. Raises `InvalidResult`. Source: DESIGN section 5."""
    schema = schemas.get(component.name)
    if schema is None:
        raise InvalidResult(CallFailure.RESULT_INVALID, f"the card declares no component {component.name!r}")
    data = _decoded(component.component_data_json, component.name)
    _decoded(component.tool_input_json, component.name)
    if not validator_of(schema).is_valid(data):
        raise InvalidResult(CallFailure.RESULT_INVALID, f"component {component.name!r} does not fit its schema")


def holds_component_data(narration: str) -> bool:
    """Return whether a narration holds structured data: a legacy marker, a JSON block, or nothing but JSON."""
    # Looked for first: the pattern takes microseconds for a narration of a kilobyte, and few hold what it begins with.
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
