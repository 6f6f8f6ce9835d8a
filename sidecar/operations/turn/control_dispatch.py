"""What a caller may do with a dispatch that runs or has run: listen again, cancel one call."""

from sidecar.core.errors import RunsElsewhere, UnknownCall, UnknownDispatch
from sidecar.core.identifiers import DispatchId
from sidecar.operations.requests import CancelRequest, ResumeRequest
from sidecar.operations.turn.dispatch_calls import Begun, Going, attached, give_up_lost
from sidecar.operations.turn.state.live_dispatch import LiveDispatch
from subagents_errors import CallFailure


class ResumeDispatch:
    """Find a dispatch again after a broken connection, wherever it was opened."""

    def __init__(self, going: Going) -> None:
        self._going = going

    async def __call__(self, request: ResumeRequest) -> Begun:
        """Return the dispatch to listen to. Raises `UnknownDispatch`, `SurfaceTokenInvalid`, `StoreUnavailable`."""
        return await attached(await _known(self._going, request.surface_token, request.dispatch_id), self._going)


class CancelCall:
    """Cancel one call; its siblings go on."""

    def __init__(self, going: Going) -> None:
        self._going = going

    async def __call__(self, request: CancelRequest) -> bool:
        """Say whether the call was still going.

        Raises:
            UnknownDispatch, UnknownCall, RunsElsewhere, SurfaceTokenInvalid, StoreUnavailable.
        """
        dispatch = await _known(self._going, request.surface_token, request.dispatch_id)
        if request.call_id not in dispatch.calls.places:
            raise UnknownCall("the dispatch has no call with that call_id", metadata={"call_id": request.call_id})
        if dispatch.turn.runs_elsewhere(dispatch.dispatch_id):
            await self._going.restore(dispatch.turn)  # what is known of it here may be old
            dispatch = await _known(self._going, request.surface_token, request.dispatch_id)
        if dispatch.turn.runs_elsewhere(dispatch.dispatch_id):
            raise RunsElsewhere("another sidecar runs the dispatch; cancel the call there, or end the turn here")
        return dispatch.calls.stop(request.call_id, CallFailure.CALL_CANCELLED)


async def _known(going: Going, token: str, dispatch_id: DispatchId) -> LiveDispatch:
    turn = await going.find(token)
    await give_up_lost(turn, dispatch_id, going)
    if dispatch_id not in turn.dispatches:
        await going.restore(turn)
    dispatch = turn.dispatches.get(dispatch_id)
    if dispatch is None:
        raise UnknownDispatch("the turn has no dispatch with that dispatch_id", metadata={"dispatch_id": dispatch_id})
    return dispatch
