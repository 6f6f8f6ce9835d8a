"""How the runner suite drives the sub-agents that a runner executes."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final

from sidecar.policy.protocols import InheritedContext, Runner

STATUS_TYPE: Final = "searching_offers"
STATUS_ATTRIBUTES: Final[Mapping[str, str]] = {"shop": "Zürich", "count": "2"}
COMPONENT: Final = "render_offers"
TOOL_INPUT_JSON: Final = '{"ids": [1, 2], "note": null}'
COMPONENT_DATA_JSON: Final = '{"offers": [{"name": "Käse \\u00e9 \\"x\\"", "price": 1.10}]}'
NARRATION: Final = ("Two offers:\n", " Käse", " and bread.")
INPUT_TOKENS, OUTPUT_TOKENS = 120, 34
FAILURE: Final = "the sub-agent of the conformance suite was told to fail"


@unique
class AgentScript(StrEnum):
    """What the sub-agent does: it reads it from the argument `request`, so that runs at once can differ."""

    ANSWER = "answer"
    """Reports the status, makes the component, narrates each part of `NARRATION`, reports the tokens, and ends."""
    NO_DATA = "no_data"
    """Narrates, and says that the data it needed was unavailable."""
    EMPTY = "empty"
    """Ends with nothing: no narration, no component, no word on missing data."""
    FAIL = "fail"
    """Raises an exception of its own with the text `FAILURE`."""
    FAIL_LATE = "fail_late"
    """Makes the component, narrates each part of `NARRATION`, and raises like `FAIL`."""
    HANG = "hang"
    """Waits until it is cancelled."""


@dataclass(frozen=True, slots=True)
class SeenRun:
    """One run as the sub-agent saw it.

    Attributes:
        grant: the token with which it would call the tool gateway; None if the runner keeps it from the sub-agent.
    """

    child_id: str
    context: InheritedContext
    arguments_json: str
    contract_json: str
    grant: str | None


class RunnerBench(ABC):
    """A host with one scripted sub-agent, and runners that reach it. A plugin's author writes one.

    Attributes:
        seen: every run that reached the sub-agent; oldest first.
    """

    seen: Sequence[SeenRun] = ()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Have the host there; all else happens inside. Override it if something must be started."""
        yield

    @abstractmethod
    def make(self) -> Runner:
        """Return a new runner for this bench's host."""

    @abstractmethod
    def make_without_host(self) -> Runner:
        """Return a new runner for a host that is not running. Ability `remote`."""

    @abstractmethod
    async def started(self, child_id: str) -> None:
        """Return once the sub-agent works for that child."""

    @abstractmethod
    async def ended(self, child_id: str) -> None:
        """Return once the sub-agent's work for that child is over, also by being cancelled."""
