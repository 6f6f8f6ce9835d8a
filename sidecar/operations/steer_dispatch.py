"""What a caller may do with a dispatch that runs or has run: listen again, cancel one call."""

from sidecar.core.errors import UnknownCall, UnknownDispatch
from sidecar.core.identifiers import DispatchId
from sidecar.operations.dispatch_calls import Begun
from sidecar.operations.live_dispatch import LiveDispatch
from sidecar.operations.requests import CancelRequest, ResumeRequest
from sidecar.operations.turns import Turns
from subagents_errors import CallFailure


class ResumeDispatch:
    """Find a dispatch again after a broken connection."""

    def __init__(self, turns: Turns) -> None:
        """Join the parts."""
        self._turns = turns

    async def __call__(self, request: ResumeRequest) -> Begun:
        """Return the dispatch to listen to. Raises `UnknownDispatch`, `SurfaceTokenInvalid`."""
        dispatch = _known(self._turns, request.surface_token, request.dispatch_id)
        with dispatch.about_to_listen():
            refused = await dispatch.opened.wait()
        if refused is not None:
            raise refused
        return Begun(dispatch, attached=True)


class CancelCall:
    """Cancel one call; its siblings go on."""

    def __init__(self, turns: Turns) -> None:
        """Join the parts."""
        self._turns = turns

    def __call__(self, request: CancelRequest) -> bool:
        """Say whether the call was still going. Raises `UnknownDispatch`, `UnknownCall`, `SurfaceTokenInvalid`."""
        dispatch = _known(self._turns, request.surface_token, request.dispatch_id)
        if not dispatch.has_call(request.call_id):
            raise UnknownCall("the dispatch has no call with that call_id", metadata={"call_id": request.call_id})
        return dispatch.stop(request.call_id, CallFailure.CALL_CANCELLED)


def _known(turns: Turns, token: str, dispatch_id: DispatchId) -> LiveDispatch:
    dispatch = turns.of_token(token).dispatches.get(dispatch_id)
    if dispatch is None:
        raise UnknownDispatch(
            "no dispatch with that dispatch_id is kept here for this turn", metadata={"dispatch_id": dispatch_id}
        )
    return dispatch
