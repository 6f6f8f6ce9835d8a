"""Which attempts may call tools now: a table of random keys. A grant ends with its attempt (DESIGN section 12).

A key carries no content and no signature. Its permissions exist only in the table, so a key cannot be forged and cannot
outlive its row. Expired keys are not kept: an unknown but well-formed key counts as expired, so that a host that
continues after a restart of the sidecar is told to stop.
"""

import re
from collections.abc import Callable
from typing import Final

import msgspec

from sidecar.core.errors import GrantInvalid, GrantSpent
from sidecar.core.identifiers import AttemptId, ChildId
from sidecar.operations.ports import Ids
from sidecar.operations.turn.state.child import Child

FORM: Final = re.compile(r"gr1\.[A-Za-z0-9_-]{1,64}\.end")
"""Both ends are fixed, so that a truncated key differs from an expired one. The log's redaction uses the same form."""


class LiveGrant(msgspec.Struct):
    """The grant of a running attempt.

    Attributes:
        child: the child that the attempt executes.
        term: the term of this process's lease in which the attempt began.
        used: the attempt has called the gateway.
    """

    child: Child
    term: int
    used: bool = False


class GrantTable:
    """Creates grants, and knows which of them are valid."""

    def __init__(
        self,
        ids: Ids,
        lease_held: Callable[[], bool] = lambda: True,
        lease_term: Callable[[], int] = lambda: 0,
    ) -> None:
        """Start without grants.

        Args:
            ids: make the keys, which must not be guessable.
            lease_held: returns whether this process may still act on the dispatches that it owns.
            lease_term: changes when the process regains its lease. Grants of earlier terms stay invalid, because other
                sidecars may have taken over their dispatches.
        """
        self._ids = ids
        self._lease_held, self._lease_term = lease_held, lease_term
        self._live: dict[str, LiveGrant] = {}
        self._keys: dict[AttemptId, str] = {}

    def mint(self, child: Child, attempt_id: AttemptId) -> str:
        """Return the bearer token of one attempt, valid until `revoke`. Call it once per attempt."""
        key = self._keys[attempt_id] = f"gr1.{self._ids.new('grant')}.end"
        # The term at the start of the attempt: a lease that was lost and regained in between does not restore the
        # grant.
        self._live[key] = LiveGrant(child, self._lease_term())
        return key

    def revoke(self, attempt_id: AttemptId) -> bool:
        """Revoke a grant, and return whether it was ever used. Unknown attempts are ignored."""
        key = self._keys.pop(attempt_id, None)
        return key is not None and self._live.pop(key).used

    def revoke_all_of(self, child_id: ChildId) -> None:
        """Revoke the grants of a child that another sidecar has taken over."""
        # A list, because `revoke` removes entries of `_keys`.
        for attempt_id in [each for each, key in self._keys.items() if self._live[key].child.child_id == child_id]:
            self.revoke(attempt_id)

    def claim(self, token: str) -> LiveGrant:
        """Return the running attempt that a token belongs to.

        Raises:
            GrantInvalid: the token does not have the form of a key.
            GrantSpent: no running attempt of this process has this key.
        """
        live = self._live.get(token)
        # The form is compared only for unknown keys: it selects the error, and is no proof.
        if live is None and not FORM.fullmatch(token):
            raise GrantInvalid("the grant is not one of this sidecar; send the one that came with the run")
        # Without the lease another sidecar may run the same child; its tools must not be called twice.
        if live is None or not self._lease_held() or live.term != self._lease_term():
            raise GrantSpent("the attempt that this grant was for is over; stop calling tools")
        live.used = True
        return live

    def holder(self, token: str) -> Child | None:
        """Return the child that a token belongs to, without using the grant; None if its attempt does not run."""
        live = self._live.get(token)
        return None if live is None else live.child

    @property
    def alive(self) -> int:
        """The number of valid grants."""
        return len(self._live)
