"""Keeps the flag states of every backend in one frozen snapshot that decisions read from memory.

Each backend has one loop: it fetches, then waits for the backend's own hint or for the timer. Any misbehaviour of a
backend (it raises, hangs, or returns another type) counts as "no contact": its last report ages, and after
`max_staleness` its flags read as unreachable. No backend delays or invalidates another. Source: PF1-NFR-4, PF1-T-19,
TN-8, TN-57.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from enum import Enum, unique
from typing import Final

from msgspec import Struct

from sidecar.core.flag_states import BackendStatus, FlagReport, FlagRoutes, FlagSnapshot, flag_snapshot_of
from sidecar.core.rollout.bucketing import WHOLE
from sidecar.operations.plugin_calls import PluginCalls, PluginFailed
from sidecar.operations.ports import Clock
from sidecar.policy.protocols import FlagBackend, NamedFlagBackend

LONGEST_DETAIL: Final = 200
"""The most characters of a backend's error text that are kept for the operator."""


class FlagTiming(Struct, frozen=True):
    """How flags are kept fresh.

    Attributes:
        fetch_deadline: the longest time for one fetch.
        refresh_interval: the time from one fetch to the next, unless the backend gives a hint earlier.
        min_interval: the least time between two fetches from one backend, however often it gives hints.
        max_staleness: the age from which a report no longer counts. It is longer than the deadline and the interval
            together, so that one lost fetch removes nothing from the surface.
    """

    fetch_deadline: timedelta = timedelta(seconds=2)
    refresh_interval: timedelta = timedelta(seconds=2)
    min_interval: timedelta = timedelta(milliseconds=50)
    max_staleness: timedelta = timedelta(seconds=10)

    def __post_init__(self) -> None:
        """Refuse settings under which flags would become stale between two successful fetches."""
        if min(self.fetch_deadline, self.refresh_interval, self.min_interval) <= timedelta(0):
            raise ValueError("fetch_deadline, refresh_interval and min_interval must be longer than zero")
        if self.max_staleness <= self.fetch_deadline + self.refresh_interval:
            raise ValueError("max_staleness must be longer than fetch_deadline and refresh_interval together")


@unique
class ContactState(Enum):
    """Whether a backend's flags may be used."""

    FRESH = "fresh"
    UNREACHABLE = "unreachable"


class FlagContactChanged(Struct, frozen=True):
    """A backend became fresh or unreachable, or its content changed.

    Attributes:
        revision: of the last report; None if there was none.
        detail: the last error, for the operator; None for a fresh backend. Never shown to a caller.
    """

    backend: str
    state: ContactState
    revision: str | None
    detail: str | None = None


class _BackendState(Struct):
    """The last state of a backend that observers were informed of, and the error of its last fetch."""

    state: ContactState | None = None
    revision: str | None = None
    failure: str | None = None


class FlagSnapshotKeeper:
    """The present snapshot, and the loops that update it.

    Args:
        backends: by name; exactly those that `routes` uses.
        routes: the backend of each vertical.
        clock: its monotonic time must be the event loop's.
        timing: deadlines and intervals.
        observe: receives each change, inside the loops; must not raise or block.
        calls: calls the backends.

    Raises:
        ValueError: `backends` and `routes` name different backends.
    """

    def __init__(
        self,
        backends: Mapping[str, FlagBackend],
        routes: FlagRoutes,
        clock: Clock,
        timing: FlagTiming,
        observe: Callable[[FlagContactChanged], None],
        calls: PluginCalls,
    ) -> None:
        if tuple(sorted(backends)) != tuple(sorted(routes.backends)):
            raise ValueError(f"routes use the flag backends {routes.backends}, but given are {tuple(sorted(backends))}")
        self._backends = {name: backends[name] for name in routes.backends}
        self._routes = routes
        self._clock = clock
        self._timing = timing
        self._observe = observe
        self._calls = calls
        self._contacts: dict[str, BackendStatus] = {}  # the last report of each backend that has answered
        self._states = {name: _BackendState() for name in routes.backends}
        self._contacted = asyncio.Event()  # set by each new report, for `_watch_ages`
        self._named: Callable[[str], frozenset[str]] = lambda _: frozenset()  # see `set_flag_names`
        self._snapshot = self._merged()

    def add_observer(self, observe: Callable[[FlagContactChanged], None]) -> None:
        """Add a second observer of each change, under the rules of the first one."""
        before = self._observe

        def both(change: FlagContactChanged) -> None:
            before(change)
            observe(change)

        self._observe = both

    async def set_flag_names(self, named: Callable[[str], frozenset[str]]) -> None:
        """Set the flags to request from backends that cannot list their flags, and fetch from these backends once.

        Args:
            named: returns all flag names that may be read from a backend, given by its name.
        """
        self._named = named
        # Not at the next interval: the fetch of the start had no names to ask for, and the first bind needs the flags.
        await self.refresh([name for name, each in self._backends.items() if isinstance(each, NamedFlagBackend)])

    @property
    def backends(self) -> Mapping[str, FlagBackend]:
        """The backends, by name."""
        return self._backends

    def current(self) -> FlagSnapshot:
        """Return the present snapshot from memory. Never waits.

        The snapshot is correct even if the loops hang or do not run: staleness is evaluated again here when its time
        has come.
        """
        # Cheap enough for each bind: one comparison of two floats.
        if self._clock.monotonic() >= self._snapshot.fresh_until:
            self._snapshot = self._merged()
        return self._snapshot

    def failures(self) -> Mapping[str, str]:
        """Return the error of each backend whose last fetch failed; for health and `GetStatus`."""
        return {name: state.failure for name, state in self._states.items() if state.failure is not None}

    def ages(self) -> Mapping[str, timedelta | None]:
        """Return the age of each backend's last report; None: there was none."""
        now, contacts = self._clock.monotonic(), self._contacts
        return {
            name: timedelta(seconds=now - contacts[name].confirmed_at) if name in contacts else None
            for name in self._backends
        }

    async def run(self) -> None:
        """Keep the snapshot fresh until cancelled. The supervisor owns this loop; it does not end by itself."""
        # `gather` and not a task group, whose order of tasks a simulation could not repeat.
        keepers = [self._keep(name, backend) for name, backend in self._backends.items()]
        await asyncio.gather(*keepers, self._watch_ages())

    async def refresh_all(self) -> None:
        """Fetch once from every backend, concurrently; at the start, so that the first bind finds flags."""
        await asyncio.gather(*(self._refresh(name, backend) for name, backend in self._backends.items()))

    async def refresh(self, names: Iterable[str]) -> None:
        """Fetch once from some backends now, in addition to the loops."""
        await asyncio.gather(*(self._refresh(name, self._backends[name]) for name in names))

    async def _keep(self, name: str, backend: FlagBackend) -> None:
        """Keep the flags of one backend fresh, for ever."""
        while True:
            await self._refresh(name, backend)
            # A backend that hints without end must not keep the loop, and the backend itself, busy.
            await asyncio.sleep(self._timing.min_interval.total_seconds())
            await self._hint_or_timer(name, backend)

    async def _refresh(self, name: str, backend: FlagBackend) -> None:
        """Fetch once from a backend, and publish the result. A failure is noted, never raised."""
        begun, limit = self._clock.monotonic(), self._timing.fetch_deadline.total_seconds()

        async def fetch() -> object:
            if isinstance(backend, NamedFlagBackend):
                backend.set_names(self._named(name))
            return await backend.fetch()

        try:
            report = _checked(await self._calls.ask(name, limit, fetch))
        except PluginFailed as failed:
            self._states[name].failure = str(failed) if failed.error is None else _described(failed.error)
        except (TypeError, ValueError) as wrong:
            self._states[name].failure = _described(wrong)
        else:
            last = self._contacts.get(name)
            if last is not None and last.confirmed_at > begun:
                # A fetch that began later has already answered. Its report is newer: replacing it by this one could
                # make a flag appear to switch, and an on-to-off edge of a kill flag kills.
                return
            # Dated with the begin of the fetch, because the content may be that old: before a kill, this time is
            # compared with the time at which the flag was switched on.
            self._contacts[name] = BackendStatus(report, begun)
            self._states[name].failure = None
            self._contacted.set()
        self._publish()

    async def _hint_or_timer(self, name: str, backend: FlagBackend) -> None:
        """Return on the backend's hint or after the interval; a failing hint counts as none."""
        interval = self._timing.refresh_interval.total_seconds()
        due = self._clock.monotonic() + interval
        try:
            await self._calls.ask(f"{name}, hints", interval, backend.changed)
        except PluginFailed:
            # Usually `PluginLate`: there was no hint, and nothing is left to wait for. A hint that fails at once must
            # not turn the loop into fetches without a pause.
            await asyncio.sleep(max(due - self._clock.monotonic(), 0.0))

    async def _watch_ages(self) -> None:
        """Publish at the moment when a report becomes too old, even if that backend's own loop hangs."""
        while True:
            # Before the snapshot is read: a fetch that answers after this line sets the event again, so none is missed.
            self._contacted.clear()
            until = self._snapshot.fresh_until
            if until == float("inf"):
                await self._contacted.wait()
            else:
                await asyncio.sleep(max(until - self._clock.monotonic(), 0.0))
            self._publish()

    def _merged(self) -> FlagSnapshot:
        now, staleness = self._clock.monotonic(), self._timing.max_staleness.total_seconds()
        return flag_snapshot_of(self._routes, self._contacts, now=now, max_staleness=staleness)

    def _publish(self) -> None:
        """Replace the snapshot, and inform the observer of changes."""
        self._snapshot = self._merged()
        for name, announced in self._states.items():
            report = self._snapshot.fresh.get(name)
            state = ContactState.UNREACHABLE if report is None else ContactState.FRESH
            revision = announced.revision if report is None else report.revision
            not_asked_yet = report is None and announced.state is None and announced.failure is None
            # Only changes: observers search all definitions for edges of kill flags.
            if not not_asked_yet and (state, revision) != (announced.state, announced.revision):
                announced.state, announced.revision = state, revision
                detail = None if report else announced.failure or "no answer for too long"
                self._observe(FlagContactChanged(name, state, revision, detail))


def _checked(report: object) -> FlagReport:
    """Return `report` if it has the right types.

    A wrong type counts as no contact: an incomplete report must not switch flags off.
    """
    if not isinstance(report, FlagReport):
        raise TypeError(f"fetch() returned {type(report).__name__}, not FlagReport")
    names: list[tuple[str, object]] = [("on", report.on), ("off", report.off), ("unclear", report.unclear)]
    if report.asked is not None:
        names.append(("asked", report.asked))
    revision: object = report.revision
    for which, found in names:
        # By type, because a report may have many thousands of names, and the event loop waits.
        if not isinstance(found, frozenset) or not all(issubclass(each, str) for each in set(map(type, found))):
            raise TypeError(f"FlagReport.{which} must be a frozenset of flag names")
    if not isinstance(revision, str):
        raise TypeError("FlagReport.revision must be a string")
    shares: object = report.shares
    if not isinstance(shares, Mapping) or not report.on >= shares.keys():
        # A share of a flag that is off has no meaning, and would hide that the report is wrong.
        raise TypeError("FlagReport.shares must map names that are on")
    for share in shares.values():
        if type(share) is not int or not 0 < share < WHOLE:
            raise ValueError(f"a share in FlagReport.shares must be 1 to {WHOLE - 1} basis points")
    return report


def _described(error: BaseException) -> str:
    """Return the type and the text of an error in one line."""
    text = " ".join(str(error).split())[:LONGEST_DETAIL]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


__all__: Sequence[str] = ("ContactState", "FlagContactChanged", "FlagSnapshotKeeper", "FlagTiming")
