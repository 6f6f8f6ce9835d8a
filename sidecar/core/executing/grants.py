"""The capability token of one child attempt: what it says, and how it is signed.

A signature alone is never enough: `operations/turn/state/grants.py` says which grants are alive (DESIGN section 12).
"""

import msgspec

from sidecar.core.binding.surface_token import SigningKeys
from sidecar.core.decoding import Undecodable, from_json
from sidecar.core.errors import GrantInvalid
from sidecar.core.identifiers import AttemptId, ChildId, ToolId, TurnId


class GrantClaims(msgspec.Struct, frozen=True, kw_only=True):
    """Bound to one attempt. The principal is not in it: it stays in the sidecar's own state."""

    attempt_id: AttemptId
    child_id: ChildId
    turn_id: TurnId
    tools: tuple[ToolId, ...]
    depth_left: int


def seal_grant(claims: GrantClaims, keys: SigningKeys) -> str:
    """Return the bearer token for `claims`."""
    return keys.sign("grant", msgspec.json.encode(claims))


def unseal_grant(token: str, keys: SigningKeys) -> GrantClaims:
    """Return what a grant says.

    Raises:
        GrantInvalid: not signed with one of `keys`, altered, or no grant at all.
    """
    body = keys.open("grant", token)
    if body is None:
        raise GrantInvalid("the grant is not one of this sidecar; send the one that came with the run")
    try:
        return from_json(body, GrantClaims)
    except Undecodable:
        raise GrantInvalid("the grant is of another version") from None
