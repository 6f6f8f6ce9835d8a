"""What is written of a dispatch when it opens, and how a repeated request is known again."""

from datetime import timedelta
from hashlib import sha256

import msgspec

from sidecar.core.decoding import from_json
from sidecar.core.executing.records import DispatchOpened
from sidecar.operations.ports import Clock
from sidecar.operations.requests import DispatchRequest
from sidecar.operations.turn.state.live_dispatch import LiveDispatch


def opened_record(dispatch: LiveDispatch, clock: Clock) -> DispatchOpened:
    """Return the record with which any sidecar can go on with `dispatch`."""
    now, claims = clock.now(), dispatch.turn.claims
    request_json = request_json_of(dispatch.request)
    return DispatchOpened(
        turn_id=claims.turn_id,
        dispatch_id=dispatch.dispatch_id,
        episode_id=claims.episode_id,
        principal=claims.principal,
        claims_json=dispatch.turn.claims_json,
        request_json=request_json,
        fingerprint=fingerprint_of(request_json),
        first_step=dispatch.plan.first_step,
        places=dispatch.plan.places,
        calls=len(dispatch.request.calls),
        intents=dispatch.intents,
        cap=dispatch.plan.cap,
        opened_at=now,
        settle_by=now + timedelta(seconds=dispatch.settle_at - clock.monotonic()),
        turn_expires_at=claims.expires_at,
    )


def request_json_of(request: DispatchRequest) -> str:
    """Return a request as text, without the token: another token of the same turn asks for the same."""
    return msgspec.json.encode(msgspec.structs.replace(request, surface_token="")).decode()


def request_from_json(text: str, surface_token: str) -> DispatchRequest:
    """Return the request that `request_json_of` wrote down."""
    return msgspec.structs.replace(from_json(text, DispatchRequest), surface_token=surface_token)


def fingerprint_of(request_json: str) -> str:
    """Return what two requests with the same contents share."""
    return sha256(request_json.encode()).hexdigest()
