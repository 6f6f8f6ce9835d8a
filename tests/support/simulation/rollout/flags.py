"""Where flags are kept, and what each process gets to know of them."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Protocol

from sidecar.adapters.flags_embedded import EmbeddedFlags, EmbeddedFlagWriter
from sidecar.core.errors import StoreUnavailable
from sidecar.operations.flag_snapshot import FlagTiming
from sidecar.operations.rollout.store.ports import StoredFlag
from sidecar.policy.protocols import FlagReport
from tests.support.simulation.ports import BEGIN
from tests.support.simulation.rollout.journal import Fetched, Journal, Switched
from tests.support.simulation.rollout.schedule import Whom
from tests.support.simulation.rollout.store import WatchedContents, Weather

TIMING: Final = FlagTiming(
    fetch_deadline=timedelta(seconds=0.4),
    refresh_interval=timedelta(seconds=0.6),
    min_interval=timedelta(seconds=0.05),
    max_staleness=timedelta(seconds=1.2),
)


class KeepsFlags(Protocol):
    """Where flags are kept."""

    def set(self, name: str, on: bool) -> None:
        """Switch one, as a person does there."""
        ...

    def is_on(self, name: str) -> bool:
        """Say whether one is on."""
        ...


@dataclass(slots=True)
class FlagService:
    """A backend of its own."""

    journal: Journal
    on: dict[str, bool] = field(default_factory=dict)
    revision: int = 0
    waiting: list[asyncio.Event] = field(default_factory=list)

    def set(self, name: str, on: bool) -> None:
        """Switch a flag."""
        if self.on.get(name, False) != on:
            self.on[name] = on
            self.revision += 1
            self.journal.add(Switched(name, on))
            for each in self.waiting:
                each.set()

    def is_on(self, name: str) -> bool:
        """Say whether a flag is on."""
        return self.on.get(name, False)

    def report(self) -> FlagReport:
        """Return all of them."""
        on = frozenset(name for name, on in self.on.items() if on)
        return FlagReport(on, str(self.revision), frozenset(self.on) - on)


@dataclass(slots=True)
class FlagsInStore:
    """The embedded backend, as a person switches it."""

    contents: WatchedContents

    def set(self, name: str, on: bool) -> None:
        """Switch a flag."""
        stored = self.contents.flags.get(name)
        if stored is None or stored.on != on:
            revision = stored.revision if stored else 0
            self.contents.set_flag(StoredFlag(name, on, revision + 1, BEGIN, "somebody"), revision)

    def is_on(self, name: str) -> bool:
        """Say whether a flag is on."""
        stored = self.contents.flags.get(name)
        return stored is not None and stored.on


class FlagsOverTheNetwork:
    """The flag backend as one process sees it; what it hears goes into the journal."""

    def __init__(self, inner: FlagService | EmbeddedFlags, weather: Weather) -> None:
        """Join the parts."""
        self._inner = inner
        self._weather = weather
        self._moved = asyncio.Event()
        if isinstance(inner, FlagService):
            inner.waiting.append(self._moved)

    async def fetch(self) -> FlagReport:
        """Return the flags as they were when asked, perhaps late."""
        weather, begun = self._weather, self._weather.loop.time()
        report = self._inner.report() if isinstance(self._inner, FlagService) else await self._inner.fetch()
        await weather.reach(Whom.FLAGS, ConnectionError("the flag backend is away"))
        if weather.happens(0.05):
            weather.trouble("flags late")
            await weather.passes(weather.chance.uniform(0.1, 0.5))
        self._weather.journal.add(Fetched(weather.life, begun, report.on, report.off))
        return report

    async def changed(self) -> None:
        """Return once there may be something new."""
        if isinstance(self._inner, EmbeddedFlags):
            await self._inner.changed()
            return
        self._moved.clear()
        await self._moved.wait()
        if self._weather.outage(Whom.FLAGS) is not None:
            raise ConnectionError("the flag backend is away")

    async def close(self) -> None:
        """Nothing to give back."""


class FlagWriterOverTheNetwork:
    """Switches flags, unless it cannot; sometimes it does and cannot say so."""

    def __init__(self, inner: FlagService | EmbeddedFlagWriter, weather: Weather) -> None:
        """Join the parts."""
        self._inner = inner
        self._weather = weather

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Set a flag. Raises `StoreUnavailable`."""
        weather = self._weather
        await weather.reach(Whom.FLAG_WRITER, StoreUnavailable("the flag backend is away"))
        if isinstance(self._inner, FlagService):
            self._inner.set(name, on)
        else:
            await self._inner.switch(name, on, by)
        if weather.happens(weather.faults.store_forgets):
            weather.trouble("flag switched and not said")
            raise StoreUnavailable("the answer was lost")

    def edit_for(self, name: str, on: bool) -> str:
        """Return nothing: `switch` does it."""
        return ""
