"""Make a child with its contract. Source: SX-3, SX-4, SX-19."""

from datetime import datetime

from sidecar.core.dispatching.plan import PlannedCall
from sidecar.core.executing.contract import Contract, TurnText, WrittenContract, contract_template
from sidecar.core.executing.events import ChildLog
from sidecar.core.executing.records import ChildOpened
from sidecar.core.identifiers import ChildId
from sidecar.operations.ports import Clock, Ids
from sidecar.operations.turn.child.call_context import Errand
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.live_dispatch import LiveDispatch


def make_child(dispatch: LiveDispatch, planned: PlannedCall, clock: Clock, ids: Ids) -> Child:
    """Return a new child; contract and first events are its unsaved records, to be made durable before it starts."""
    turn, now = dispatch.turn, clock.now()
    inherited = dispatch.inherited_of(planned.call.call_id)
    text = TurnText(inherited.task_prompt, inherited.prior_context)
    template, seconds = planned.tool.made_once(contract_template), dispatch.settle_at - clock.monotonic()
    written = template.filled(turn.turn_id, planned.step_idx, text, planned.request, seconds)
    return _child(dispatch, planned, written, ChildId(ids.new("child")), now)


def make_delegated_child(
    parent: Child, errand: Errand, planned: PlannedCall, contract: Contract, clock: Clock
) -> Child:
    """Return a new child that `parent` delegates to; its id is the id of the planned call."""
    written = WrittenContract(contract, contract.to_json())
    return _child(errand, planned, written, ChildId(planned.call.call_id), clock.now(), parent)


def _child(
    errand: Errand,
    planned: PlannedCall,
    written: WrittenContract,
    child_id: ChildId,
    now: datetime,
    parent: Child | None = None,
) -> Child:
    turn, contract = errand.turn, written.contract
    opened = ChildOpened(
        child_id=child_id,
        turn_id=turn.turn_id,
        episode_id=turn.claims.episode_id,
        dispatch_id=errand.dispatch_id,
        call_id=planned.call.call_id,
        slot=planned.tool.slot,
        step_idx=planned.step_idx,
        context_json=written.json,
        opened_at=now,
        parent_child_id=contract.parent_child_id,
    )
    log = ChildLog(child_id, turn.turn_id, planned.tool.slot, planned.step_idx, opened.link)
    return Child(
        child_id=child_id,
        call_id=planned.call.call_id,
        dispatch_id=errand.dispatch_id,
        step_idx=planned.step_idx,
        tool=planned.tool,
        contract=contract,
        contract_json=written.json,
        principal=turn.claims.principal,
        log=log,
        opening=[opened, log.created(now, planned.tool.card.digest), log.started(now)],
        above=None if parent is None else parent.ledger,
    )
