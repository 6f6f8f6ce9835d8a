"""Which grants are alive. A grant dies with its attempt, whatever its signature says (DESIGN section 12)."""

from collections.abc import Callable

import msgspec

from sidecar.core.binding.surface_token import SigningKeys
from sidecar.core.errors import GrantInvalid, GrantSpent
from sidecar.core.executing.grants import GrantClaims, seal_grant, unseal_grant
from sidecar.core.identifiers import AttemptId, ChildId
from sidecar.operations.turn.state.child import Child


class LiveGrant(msgspec.Struct):
    """One attempt that may call tools now; `used`: it has asked the gateway for something."""

    claims: GrantClaims
    child: Child
    term: int
    used: bool = False


class GrantTable:
    """Mints grants and knows which are alive."""

    def __init__(
        self,
        keys: SigningKeys,
        lease_held: Callable[[], bool] = lambda: True,
        lease_term: Callable[[], int] = lambda: 0,
    ) -> None:
        """Begin with none.

        Args:
            keys: sign the tokens.
            lease_held: says whether this process may still act on what it owns on record.
            lease_term: changes when it may again, after it might not; grants of before stay dead then, since others
                may have gone on with what they were for.
        """
        self._keys = keys
        self._lease_held, self._lease_term = lease_held, lease_term
        self._live: dict[AttemptId, LiveGrant] = {}

    def mint(self, child: Child, attempt_id: AttemptId) -> str:
        """Return the bearer token of one attempt, alive until `revoke`."""
        permissions = child.contract.permissions
        claims = GrantClaims(
            attempt_id=attempt_id,
            child_id=child.child_id,
            turn_id=child.log.run_id,
            tools=permissions.allowed_tools,
            depth_left=permissions.max_delegation_depth,
        )
        self._live[attempt_id] = LiveGrant(claims, child, self._lease_term())
        return seal_grant(claims, self._keys)

    def revoke(self, attempt_id: AttemptId) -> bool:
        """Kill a grant, and say whether it was ever used. Unknown ones are ignored."""
        live = self._live.pop(attempt_id, None)
        return live is not None and live.used

    def revoke_all_of(self, child_id: ChildId) -> None:
        """Kill the grants of a child that others have gone on with."""
        for attempt_id in [each for each, live in self._live.items() if live.child.child_id == child_id]:
            self.revoke(attempt_id)

    def claim(self, token: str) -> LiveGrant:
        """Return the live attempt that a token belongs to.

        Raises:
            GrantInvalid: not one of ours.
            GrantSpent: the attempt is over.
        """
        claims = unseal_grant(token, self._keys)
        live = self._live.get(claims.attempt_id)
        if live is None or not self._lease_held() or live.term != self._lease_term():
            raise GrantSpent("the attempt that this grant was for is over; stop calling tools")
        if live.claims != claims:
            raise GrantInvalid("the grant is not the one that was minted for this attempt")
        live.used = True
        return live

    @property
    def alive(self) -> int:
        """How many grants are alive."""
        return len(self._live)
