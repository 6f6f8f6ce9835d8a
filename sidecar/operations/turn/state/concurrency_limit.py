"""A limit on concurrent work of one kind, with the time to retry if all places are taken."""

from datetime import timedelta
from typing import Final

from sidecar.core.errors import AdmissionRefused
from sidecar.operations.ports import Clock

SOONEST: Final = 0.1
"""Seconds."""


class ConcurrencyLimit:
    """The places of one limit.

    Args:
        limit: its name, as refusals are counted by it.
        most: how many.
        longest: how long one place is taken at most, in seconds.
    """

    def __init__(self, limit: str, most: int, longest: float, clock: Clock) -> None:
        """Begin with all of them free."""
        self._limit = limit
        self._most = most
        self._longest = longest
        self._clock = clock
        self._since: dict[object, float] = {}
        self._full_since = 0.0

    @property
    def taken(self) -> int:
        """How many are taken; more than there are, if something could not be refused."""
        return len(self._since)

    def refuse_if_full(self, what: str) -> None:
        """Raise `AdmissionRefused` if no place is free; `what` says what takes them, and what to do."""
        if len(self._since) >= self._most:
            raise AdmissionRefused(
                f"{self._most} {what}",
                metadata={"limit": self._limit, "most": str(self._most)},
                retry_after=self._free_in(),
            )

    def take(self, key: object) -> None:
        """Take a place for `key`; that has one already, or there is none left: it is counted even so."""
        self._since.setdefault(key, self._clock.monotonic())
        if len(self._since) == self._most:
            self._full_since = self._clock.monotonic()

    def give_back(self, key: object) -> None:
        """Give the place of `key` back, if it has one."""
        self._since.pop(key, None)

    def _free_in(self) -> timedelta:
        """Return when it is worth another try.

        As long as no place has come free so far, so that a client asks seldom if they are taken for long and soon if
        not; never later than when the oldest has to be free.
        """
        now = self._clock.monotonic()
        latest = next(iter(self._since.values())) + self._longest - now
        return timedelta(seconds=max(SOONEST, min(now - self._full_since, latest)))
