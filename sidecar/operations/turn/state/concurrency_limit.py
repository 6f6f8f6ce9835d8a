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
        """Raise `AdmissionRefused` if no place is free; `what` names what occupies the places, and the remedy."""
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
        """Return the time after which a retry makes sense.

        It is the time for which no place has become free so far: a client retries rarely if places are held for long,
        and soon if they are not. It is never later than the time at which the oldest place must be free.
        """
        now = self._clock.monotonic()
        latest = next(iter(self._since.values())) + self._longest - now
        return timedelta(seconds=max(SOONEST, min(now - self._full_since, latest)))
