"""The bench of the runner suite, which controls the sub-agent that a runner executes."""

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
    """What the sub-agent does. It reads the value from the argument `request`, so that concurrent runs can differ."""

    ANSWER = "answer"
    """Reports the status, renders the component, narrates each part of `NARRATION`, reports the tokens, and ends."""
    NO_DATA = "no_data"
    """Narrates, and reports that data was unavailable."""
    EMPTY = "empty"
    """Ends without narration, component or a report of unavailable data."""
    FAIL = "fail"
    """Raises an exception with the text `FAILURE`."""
    FAIL_LATE = "fail_late"
    """Renders the component, narrates each part of `NARRATION`, and raises like `FAIL`."""
    HANG = "hang"
    """Waits until it is cancelled."""


@dataclass(frozen=True, slots=True)
class SeenRun:
    """One run that the sub-agent received.

    Attributes:
        grant: the key with which it can call the tool gateway; None if the runner does not give it to the sub-agent.
    """

    child_id: str
    context: InheritedContext
    arguments_json: str
    contract_json: str
    grant: str | None


class RunnerBench(ABC):
    """A host with one scripted sub-agent, and runners that call it. Plugin authors subclass it.

    Attributes:
        seen: all runs that reached the sub-agent, oldest first.
    """

    seen: Sequence[SeenRun] = ()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the host while the block runs; other methods are called inside. Override it to start a host."""
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
