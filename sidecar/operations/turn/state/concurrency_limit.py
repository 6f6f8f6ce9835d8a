"""Limits on concurrent work of one kind, with the time to retry if all places are taken.

No vertical and no user can take all places for dispatches: calls of a hanging sub-agent keep their places for minutes
and would otherwise block all others.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

from sidecar.core.binding.surface import Surface
from sidecar.core.dispatching.calls import ToolCall
from sidecar.core.errors import AdmissionRefused, PrincipalBusy, VerticalBusy
from sidecar.core.identifiers import Principal, Slot, Vertical
from sidecar.operations.ports import Clock
from sidecar.operations.rules import AdmissionRules
from sidecar.operations.turn.state.live_dispatch import LiveDispatch

SOONEST: Final = 0.1
"""The shortest time to retry, in seconds."""
SHARE_RETRY: Final = timedelta(seconds=1)
"""The time to retry if a vertical or a user has taken its share."""


class ConcurrencyLimit:
    """The places of one limit.

    Args:
        limit: the name under which refusals are counted.
        most: the number of places.
        longest: the longest time for which one place is taken, in seconds.
    """

    def __init__(self, limit: str, most: int, longest: float, clock: Clock) -> None:
        """Begin with all places free."""
        self._limit = limit
        self._most = most
        self._longest = longest
        self._clock = clock
        self._since: dict[object, float] = {}  # when each place was taken, by key
        # When the last free place was taken. It is read only while all places are taken, so 0 never reaches a client.
        self._full_since = 0.0

    @property
    def most(self) -> int:
        """The number of places."""
        return self._most

    @property
    def taken(self) -> int:
        """The number of taken places. It exceeds `most` if work was restored that cannot be refused."""
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
        """Take a place for `key`, unless it has one. Does not check whether a place is free."""
        if key in self._since:
            # Nothing changed: a new `_full_since` would make the suggested time to retry too short.
            return
        self._since[key] = self._clock.monotonic()
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
        # A dictionary keeps the order of insertion, so its first value belongs to the oldest place.
        latest = next(iter(self._since.values())) + self._longest - now
        return timedelta(seconds=max(SOONEST, min(now - self._full_since, latest)))


class DispatchPlaces(ConcurrencyLimit):
    """The places of dispatches. Each also counts for its principal and for every vertical whose sub-agents it calls.

    Every dispatch runs this code, so it uses plain loops and calls no functions: `tests/budgets` counts each call.

    Args:
        rules: the number of places, and the share that one vertical and one principal may take.
        longest: the longest time for which one place is taken, in seconds.
        several: returns whether the definitions have several verticals; called only when one has taken its share.
    """

    def __init__(self, rules: AdmissionRules, longest: float, clock: Clock, several: Callable[[], bool]) -> None:
        super().__init__("dispatches", rules.dispatches, longest, clock)
        # At least one place each: a small limit times a small share would otherwise refuse every dispatch.
        self._vertical_share = max(1, int(rules.dispatches * rules.vertical_share))
        self._principal_share = max(1, int(rules.dispatches * rules.principal_share))
        self._several = several
        self._by_vertical: dict[Vertical, int] = {}
        self._by_principal: dict[Principal, int] = {}

    @property
    def by_vertical(self) -> dict[Vertical, int]:
        """The number of places that each vertical has."""
        return dict(self._by_vertical)

    @property
    def by_slot(self) -> dict[Slot, int]:
        """The number of unsettled calls of each slot."""
        every = (each.calls for each in self._since if isinstance(each, LiveDispatch))
        return dict(Counter(calls.planned[call_id].tool.slot for calls in every for call_id in calls.stops))

    def refuse_if_taken(self, surface: Surface, principal: Principal, calls: Sequence[ToolCall]) -> None:
        """Refuse a dispatch for which there is no place.

        Raises:
            AdmissionRefused: all places are taken.
            VerticalBusy, PrincipalBusy: the vertical of a call, or the principal, has taken its share.
        """
        if len(self._since) >= self._most:
            self.refuse_if_full(
                "dispatches are running already; come back when one is done, or raise dispatch.admission.dispatches"
            )
        if self._by_principal.get(principal, 0) >= self._principal_share:
            raise PrincipalBusy(
                f"{self._principal_share} dispatches of this user are running already; come back when one is done, or "
                "raise dispatch.admission.principal_share",
                metadata={"limit": "principal", "most": str(self._principal_share)},
                retry_after=SHARE_RETRY,
            )
        by_name, held = surface.by_name, self._by_vertical
        # A call of an unknown tool gets its outcome without a place.
        for call in calls:
            tool = by_name.get(call.tool_name)
            if tool is not None and held.get(tool.card.definition.vertical, 0) >= self._vertical_share:
                self._refuse_vertical(tool.card.definition.vertical)

    def _refuse_vertical(self, vertical: Vertical) -> None:
        # With a single vertical, its share would only lower the limit for all.
        if self._several():
            raise VerticalBusy(
                f"{self._vertical_share} dispatches that call sub-agents of {vertical} are running already, and the "
                "other places are for other verticals; come back when one is done, or send the other calls without "
                "these",
                metadata={"limit": "vertical", "most": str(self._vertical_share), "vertical": vertical},
                retry_after=SHARE_RETRY,
            )

    def enter(self, dispatch: LiveDispatch) -> None:
        """Give a dispatch its place. `leave` must follow."""
        now = self._clock.monotonic()
        # Not `take`: this runs once for each dispatch, and a dispatch enters only once.
        self._since[dispatch] = now
        if len(self._since) == self._most:
            self._full_since = now
        principal, held = dispatch.turn.claims.principal, self._by_vertical
        self._by_principal[principal] = self._by_principal.get(principal, 0) + 1
        previous = ""
        for each in dispatch.plan.run:
            vertical = each.tool.card.definition.vertical
            # Usually all calls have one vertical. In a mixed order a vertical may count twice; `leave` iterates in the
            # same order and subtracts the same number.
            if vertical != previous:
                previous = vertical
                held[vertical] = held.get(vertical, 0) + 1

    def leave(self, dispatch: LiveDispatch) -> None:
        """Release the place of a dispatch, if it has one."""
        if self._since.pop(dispatch, None) is None:
            return
        principal, held = dispatch.turn.claims.principal, self._by_vertical
        self._by_principal[principal] -= 1
        if not self._by_principal[principal]:
            # An entry for each user that ever dispatched would grow without a limit.
            del self._by_principal[principal]
        previous = ""
        for each in dispatch.plan.run:
            vertical = each.tool.card.definition.vertical
            if vertical != previous:
                previous = vertical
                held[vertical] -= 1
