"""Flag states as one frozen snapshot, merged from every flag backend in use.

A decision reads only a snapshot: no await, no clock, no I/O (PF1-NFR-4b, TN-8). `operations/flag_snapshot.py` fetches
and swaps snapshots. Times are monotonic seconds.
"""

from collections.abc import Mapping
from enum import Enum, unique
from types import MappingProxyType
from typing import Final

from msgspec import Struct, field

from sidecar.core.identifiers import Vertical

EVERYBODY: Final = 10_000
"""All users, in basis points, as of a ramp."""


@unique
class FlagValue(Enum):
    """The result of reading a flag. Unreachable is a separate value and never means off. Source: PF1-T-19, TN-57."""

    ON = "on"
    OFF = "off"
    UNREACHABLE = "unreachable"


class FlagReport(Struct, frozen=True):
    """The flags of a backend at its last confirmed contact.

    Attributes:
        on: names of the flags that are on for all users whom the flag's own targeting admits.
        revision: changes whenever the content does; for cohorts and logs.
        off: names of flags that exist and are off, if the backend distinguishes them from unknown names.
        shares: for flags in `on` that are on for some users only: their share in basis points, 1 to 9,999. The sidecar
            buckets users itself, and a share narrows the ramp.
        unclear: names whose state the backend cannot tell; they read as unreachable.
        asked: all requested names, if the backend cannot list its flags; other names read as unreachable. None: the
            backend lists its flags, and a name that it does not list is off.
    """

    on: frozenset[str]
    revision: str
    off: frozenset[str] = frozenset()
    shares: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    unclear: frozenset[str] = frozenset()
    asked: frozenset[str] | None = None


class BackendStatus(Struct, frozen=True):
    """The last confirmed contact with one backend.

    Attributes:
        confirmed_at: monotonic seconds at which the fetch of `report` *began*, because its content may be that old.
    """

    report: FlagReport
    confirmed_at: float


class FlagRoutes(Struct, frozen=True):
    """The backend of each vertical. Source: DESIGN section 9.

    Attributes:
        default: name of the platform's backend, for verticals without an entry and for flags of no vertical.
        by_vertical: names of the other verticals' backends.
    """

    default: str
    by_vertical: Mapping[Vertical, str] = field(default_factory=lambda: MappingProxyType({}))

    def backend_of(self, vertical: Vertical | None) -> str:
        """Return the name of a vertical's backend."""
        return self.default if vertical is None else self.by_vertical.get(vertical, self.default)

    @property
    def backends(self) -> tuple[str, ...]:
        """Names of all backends in use: the default first, then by name."""
        # Sorted, because a set has no determined order.
        return (self.default, *sorted(set(self.by_vertical.values()) - {self.default}))


class FlagSnapshot(Struct, frozen=True):
    """All flag states at one moment. Created by `flag_snapshot_of`.

    Attributes:
        fresh: the usable reports, by backend; a backend that is stale or was never reached has no entry.
        fresh_until: monotonic seconds at which the first of `fresh` becomes stale; infinity if there is none.
        confirmed_at: monotonic seconds at which the fetch of each of `fresh` began.
        narrowed: whether a flag of `fresh` is on for some users only.
    """

    routes: FlagRoutes
    fresh: Mapping[str, FlagReport]
    fresh_until: float
    confirmed_at: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    narrowed: bool = False

    def value(self, flag_name: str, vertical: Vertical | None = None) -> FlagValue:
        """Return the state of a flag at the vertical's backend.

        A flag that the backend does not know is off (TN-59). If the backend is stale or was never reached, every flag
        of its verticals is unreachable, which is neither on nor off (TN-57). The same holds for a flag whose state a
        reached backend cannot tell, or that was not requested.
        """
        report = self.fresh.get(self.routes.backend_of(vertical))
        if report is None:
            return FlagValue.UNREACHABLE
        if flag_name in report.on:
            return FlagValue.ON
        # Before OFF: off kills or pauses a definition, so an unclear state must never become off.
        if flag_name in report.unclear or (report.asked is not None and flag_name not in report.asked):
            return FlagValue.UNREACHABLE
        return FlagValue.OFF

    def share(self, flag_name: str, vertical: Vertical | None = None) -> int:
        """Return the share of users for whom a flag is on, in basis points; 10,000 for any other flag."""
        report = self.fresh.get(self.routes.backend_of(vertical))
        # An unreachable flag has no share; its value decides, and it admits no user.
        return EVERYBODY if report is None else report.shares.get(flag_name, EVERYBODY)

    def exists(self, flag_name: str, vertical: Vertical | None = None) -> bool:
        """Return whether the vertical's backend is known to have a flag, on or off; False if it never answered."""
        report = self.fresh.get(self.routes.backend_of(vertical))
        # Not by `asked`: a name that was requested may be unknown to the backend.
        return report is not None and (flag_name in report.on or flag_name in report.off)

    def told_since(self, moment: float, vertical: Vertical | None = None) -> bool:
        """Return whether the report of the vertical's backend was requested at `moment` or later."""
        return self.confirmed_at.get(self.routes.backend_of(vertical), float("-inf")) >= moment

    def active_flags(self, among: frozenset[str]) -> tuple[str, ...]:
        """Return those of the flags `among` that are on for all users at any fresh backend, in code point order.

        For audit events. Decisions use `value`, which considers the vertical. A backend may have fifty thousand flags
        that no definition mentions: sorting them for each step would stop the event loop for 50 ms.
        """
        # Without flags that are on for a share: the audit names what applies to every user.
        on = [(report.on & among) - report.shares.keys() for report in self.fresh.values()]
        return tuple(sorted(frozenset().union(*on)))

    @property
    def stale_backends(self) -> tuple[str, ...]:
        """Names of the backends whose flags are unreachable, in the order of `routes.backends`."""
        return tuple(name for name in self.routes.backends if name not in self.fresh)


def flag_snapshot_of(
    routes: FlagRoutes, contacts: Mapping[str, BackendStatus], *, now: float, max_staleness: float
) -> FlagSnapshot:
    """Merge the last contacts of all backends.

    Args:
        routes: the backend of each vertical.
        contacts: by backend name; a backend without an entry was never reached. Names that no route uses are ignored.
        now: monotonic seconds.
        max_staleness: age in seconds from which a contact no longer counts.

    Returns:
        The snapshot, valid from `now` until its `fresh_until`.
    """
    # A backend that no route uses must not shorten `fresh_until`.
    used = {name: contacts[name] for name in routes.backends if name in contacts}
    fresh = {name: contact for name, contact in used.items() if now < contact.confirmed_at + max_staleness}
    # The same sum as above: with a difference there, rounding could let a stale contact count as fresh.
    ends = [contact.confirmed_at + max_staleness for contact in fresh.values()]
    return FlagSnapshot(
        routes=routes,
        fresh=MappingProxyType({name: contact.report for name, contact in fresh.items()}),
        fresh_until=min(ends, default=float("inf")),
        confirmed_at=MappingProxyType({name: contact.confirmed_at for name, contact in fresh.items()}),
        narrowed=any(contact.report.shares for contact in fresh.values()),
    )
