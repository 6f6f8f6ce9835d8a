"""Keeps the flag states of every backend in one frozen snapshot that decisions read from memory.

Each backend has one loop: it fetches, then waits for the backend's own hint or for the timer. Any misbehaviour of a
backend (it raises, hangs, or returns another type) is "no contact": its last report ages, and after `max_staleness`
its flags read as unreachable. No backend delays or invalidates another. Source: PF1-NFR-4, PF1-T-19, TN-8, TN-57.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from enum import Enum, unique
from typing import Final

from msgspec import Struct

from sidecar.core.flag_states import BackendStatus, FlagReport, FlagRoutes, FlagSnapshot, flag_snapshot_of
from sidecar.core.rollout.bucketing import WHOLE
from sidecar.operations.ports import Clock
from sidecar.policy.protocols import FlagBackend, NamedFlagBackend

LONGEST_DETAIL: Final = 200
"""Characters of a backend's own error text that are kept for the operator."""


class FlagTiming(Struct, frozen=True):
    """How flags are kept fresh.

    Attributes:
        fetch_deadline: longest one fetch may take.
        refresh_interval: a backend is asked this long after its last answer, if it gave no hint before.
        min_interval: least time between two fetches from one backend, however often it hints.
        max_staleness: age from which on a contact no longer counts; longer than the other two together, so that one
            lost fetch takes nothing off the surface.
    """

    fetch_deadline: timedelta = timedelta(seconds=2)
    refresh_interval: timedelta = timedelta(seconds=2)
    min_interval: timedelta = timedelta(milliseconds=50)
    max_staleness: timedelta = timedelta(seconds=10)

    def __post_init__(self) -> None:
        """Refuse timing under which fresh flags would go stale between two fetches."""
        if min(self.fetch_deadline, self.refresh_interval, self.min_interval) <= timedelta(0):
            raise ValueError("fetch_deadline, refresh_interval and quiet_time must be longer than zero")
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
        revision: of the last report; None if there never was one.
        detail: what went wrong last, for the operator; None for a fresh backend. Never shown to a caller.
    """

    backend: str
    state: ContactState
    revision: str | None
    detail: str | None = None


class _BackendState(Struct):
    """What the observer last heard about one backend, and why its last fetch failed, if it did."""

    state: ContactState | None = None
    revision: str | None = None
    failure: str | None = None


class FlagSnapshotKeeper:
    """The present snapshot, and the loops that keep it so.

    Args:
        backends: by name; exactly those that `routes` uses.
        routes: which backend answers for which vertical.
        clock: its monotonic time must be the event loop's.
        timing: deadlines and intervals.
        observe: told of each change, from inside the loops; must not raise or block.

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
    ) -> None:
        if tuple(sorted(backends)) != tuple(sorted(routes.backends)):
            raise ValueError(f"routes use the flag backends {routes.backends}, but given are {tuple(sorted(backends))}")
        self._backends = {name: backends[name] for name in routes.backends}
        self._routes = routes
        self._clock = clock
        self._timing = timing
        self._observe = observe
        self._contacts: dict[str, BackendStatus] = {}
        self._standing = {name: _BackendState() for name in routes.backends}
        self._contacted = asyncio.Event()
        self._named: Callable[[str], frozenset[str]] = lambda _: frozenset()
        self._snapshot = self._merged()

    def also_tell(self, observe: Callable[[FlagContactChanged], None]) -> None:
        """Add a second observer of each change; the rules of the first one apply to it, too."""
        before = self._observe

        def both(change: FlagContactChanged) -> None:
            before(change)
            observe(change)

        self._observe = both

    async def ask_by_name(self, named: Callable[[str], frozenset[str]]) -> None:
        """Ask the backends that list no flags for these from now on, and once at once.

        Args:
            named: returns the names of all flags that a backend, given by its name, may be read for.
        """
        self._named = named
        await self.refresh([name for name, each in self._backends.items() if isinstance(each, NamedFlagBackend)])

    @property
    def backends(self) -> Mapping[str, FlagBackend]:
        """The backends, by name."""
        return self._backends

    def current(self) -> FlagSnapshot:
        """Return the snapshot as it holds now. Memory only; never waits.

        It is true even if the loops are stuck or not running: staleness is judged here again once its moment has come.
        """
        if self._clock.monotonic() >= self._snapshot.fresh_until:
            self._snapshot = self._merged()
        return self._snapshot

    def failures(self) -> Mapping[str, str]:
        """Return, for each backend whose last fetch failed, why; for health and `GetStatus`."""
        return {name: standing.failure for name, standing in self._standing.items() if standing.failure is not None}

    def ages(self) -> Mapping[str, timedelta | None]:
        """Return how long ago each backend was last in contact; None: never."""
        now, contacts = self._clock.monotonic(), self._contacts
        return {
            name: timedelta(seconds=now - contacts[name].confirmed_at) if name in contacts else None
            for name in self._backends
        }

    async def run(self) -> None:
        """Keep the snapshot fresh until cancelled. The supervisor owns this; it never ends by itself."""
        keepers = [self._keep(name, backend) for name, backend in self._backends.items()]
        await asyncio.gather(*keepers, self._watch_ages())

    async def refresh_all(self) -> None:
        """Fetch once from every backend, at the same time; for the start, so that the first bind finds flags."""
        await asyncio.gather(*(self._refresh(name, backend) for name, backend in self._backends.items()))

    async def refresh(self, names: Iterable[str]) -> None:
        """Fetch once from some backends now, beside the loops."""
        await asyncio.gather(*(self._refresh(name, self._backends[name]) for name in names))

    async def _keep(self, name: str, backend: FlagBackend) -> None:
        while True:
            await self._refresh(name, backend)
            await asyncio.sleep(self._timing.min_interval.total_seconds())
            await self._hint_or_timer(backend)

    async def _refresh(self, name: str, backend: FlagBackend) -> None:
        begun, limit = self._clock.monotonic(), self._timing.fetch_deadline.total_seconds()
        try:
            async with asyncio.timeout(limit) as guard:
                if isinstance(backend, NamedFlagBackend):
                    backend.set_names(self._named(name))
                report = _checked(await backend.fetch())
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001  the border of a plugin; signals never raise here
            _raise_if_we_are_cancelled(error)
            late = isinstance(error, TimeoutError) and guard.expired()
            self._standing[name].failure = f"no answer within {limit:g} s" if late else _described(error)
        else:
            known = self._contacts.get(name)
            if known is not None and known.confirmed_at > begun:
                return  # asked before what is known was: an older answer must not look like a flag that fell
            self._contacts[name] = BackendStatus(report, begun)
            self._standing[name].failure = None
            self._contacted.set()
        self._publish()

    async def _hint_or_timer(self, backend: FlagBackend) -> None:
        """Return on the backend's hint, else after the interval; a broken hint means the interval."""
        interval = self._timing.refresh_interval.total_seconds()
        due = self._clock.monotonic() + interval
        try:
            async with asyncio.timeout(interval):
                await backend.changed()
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001  as in `_refresh`
            _raise_if_we_are_cancelled(error)
            await asyncio.sleep(max(due - self._clock.monotonic(), 0.0))

    async def _watch_ages(self) -> None:
        """Publish at the moment a contact becomes too old, also if that backend's own loop hangs."""
        while True:
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
        """Swap the snapshot and tell the observer what is different."""
        self._snapshot = self._merged()
        for name, standing in self._standing.items():
            report = self._snapshot.fresh.get(name)
            state = ContactState.UNREACHABLE if report is None else ContactState.FRESH
            revision = standing.revision if report is None else report.revision
            not_asked_yet = report is None and standing.state is None and standing.failure is None
            if not not_asked_yet and (state, revision) != (standing.state, standing.revision):
                standing.state, standing.revision = state, revision
                detail = None if report else standing.failure or "no answer for too long"
                self._observe(FlagContactChanged(name, state, revision, detail))


def _checked(report: object) -> FlagReport:
    """Return `report` if it is one; a wrong type is no contact, because half an answer must not turn flags off."""
    if not isinstance(report, FlagReport):
        raise TypeError(f"fetch() returned {type(report).__name__}, not FlagReport")
    names: list[tuple[str, object]] = [("on", report.on), ("off", report.off), ("unclear", report.unclear)]
    if report.asked is not None:
        names.append(("asked", report.asked))
    revision: object = report.revision
    for which, found in names:
        if not isinstance(found, frozenset) or not all(isinstance(name, str) for name in found):
            raise TypeError(f"FlagReport.{which} must be a frozenset of flag names")
    if not isinstance(revision, str):
        raise TypeError("FlagReport.revision must be a string")
    shares: object = report.shares
    if not isinstance(shares, Mapping) or not report.on >= shares.keys():
        raise TypeError("FlagReport.shares must map names that are on")
    for share in shares.values():
        if type(share) is not int or not 0 < share < WHOLE:
            raise ValueError(f"a share in FlagReport.shares must be 1 to {WHOLE - 1} basis points")
    return report


def _raise_if_we_are_cancelled(error: BaseException) -> None:
    """Let a cancellation of our own task through; a stray one from a backend is that backend's failure."""
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
        raise error


def _described(error: BaseException) -> str:
    text = " ".join(str(error).split())[:LONGEST_DETAIL]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


__all__: Sequence[str] = ("ContactState", "FlagContactChanged", "FlagSnapshotKeeper", "FlagTiming")
