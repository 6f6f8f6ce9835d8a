"""Stops one child of a dispatch or of a delegation from inside the sidecar."""

from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.open_turns import Turn
from subagents_errors import CallFailure


def stop_child(turn: Turn, child: Child, reason: CallFailure) -> None:
    """Stop a child of a turn, unless it is over: its attempt ends, and no further attempt starts."""
    above = child.contract.parent_child_id
    if above is None:
        dispatch = turn.dispatches.get(child.dispatch_id)
        if dispatch is not None:
            dispatch.calls.stop(child.call_id, reason)
        return
    # A delegated child is no call of its dispatch; only its parent's ledger knows how to stop it.
    parent = turn.children.get(above)
    delegation = None if parent is None else parent.ledger.running.get(child.child_id)
    if delegation is not None:
        delegation.cancel(reason)
