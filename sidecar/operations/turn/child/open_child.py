"""Creates a child with its contract.

A child exists in memory before its fact is recorded, and starts only after that. `dispatch_calls` opens the children
that start with their dispatch, `execute_dispatch` those that waited in a slot queue, and `delegate` those below
another child.

Source: SX-3, SX-4, SX-19.
"""

from collections.abc import Sequence

from msgspec import Struct

from sidecar.core.dispatching.plan import REQUEST_LIMIT, PlannedCall
from sidecar.core.executing.contract import (
    GOAL_SUMMARY_LIMIT,
    Contract,
    StoredContract,
    TurnText,
    contract_template,
)
from sidecar.core.identifiers import ChildId, DispatchId
from sidecar.core.journal.facts import ChildrenOpened, ChildStart
from sidecar.core.journal.making.child_log import ChildLog
from sidecar.core.journal.opening.contracts import (
    ContractTexts,
    asked_in,
    bare_template,
    below,
    differing,
    stripped,
)
from sidecar.core.journal.opening.part import packed
from sidecar.core.journal.texts import Texts
from sidecar.operations.ports import Ids
from sidecar.operations.turn.child.call_context import CallContext
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.live_dispatch import LiveDispatch


class NewChild(Struct, frozen=True):
    """A child, and its part of the fact that records it. The child starts when the fact is recorded."""

    child: Child
    start: ChildStart
    texts: ContractTexts


def make_child(dispatch: LiveDispatch, planned: PlannedCall, now: float, ids: Ids) -> NewChild:
    """Return a new child. `now` is by the event loop's clock."""
    turn, request, tool, call = dispatch.turn, dispatch.request, planned.tool, planned.call
    # The prompt of the dispatch, and the call's own prior context; without one, that of the dispatch.
    inherited = dispatch.inherited_of(call.call_id)
    text = TurnText(inherited.task_prompt, inherited.prior_context)
    # The templates hold only what all calls of the tool share. If they kept a part of one call, the next child would
    # start with the request of another user.
    template, seconds = tool.made_once(contract_template), dispatch.settle_at - now
    written = template.filled(turn.turn_id, planned.step_idx, text, planned.request, seconds)
    contract = written.contract
    digest = None if turn.digests.get(tool.slot) == tool.card.digest else packed((tool.card.digest,))
    # The fact stores no value that its readers can derive, e.g. no digest that the turn has bound for the slot.
    stored_contract = tool.made_once(bare_template).filled(contract.budgets.time_left_ms, digest)
    # Usually the arguments are stored exactly as they were sent. Then the request in them need not be parsed again,
    # which is measurable in a large fan-out.
    if planned.arguments_json is call.arguments_json and len(planned.request) < REQUEST_LIMIT:
        request_text = None
    else:
        request_text = differing(planned.request, asked_in(call))
    prompt, goal = text.task_prompt, contract.parent.goal_summary
    own_texts = ContractTexts(
        request_text,  # the `description` of the contract's step
        None if prompt == request.task_prompt else prompt,
        None if goal == request.prior_context[:GOAL_SUMMARY_LIMIT] else goal,
    )
    child = _child(dispatch, planned, written, ChildId(ids.new("child")))
    # Set here, because the first attempt sends it to the runner and may begin as soon as the fact is recorded.
    if call.answering is not None:
        child.continue_work(dispatch.calls.continuations[call.call_id])
    # `after=0`: the child is created at the time of its fact.
    start = ChildStart(child.child_id, tool.slot, planned.step_idx, after=0, contract=stored_contract)
    return NewChild(child, start, own_texts)


def make_delegated_child(parent: Child, context: CallContext, planned: PlannedCall, contract: Contract) -> NewChild:
    """Return a new child that `parent` delegates to. The planned call has the child's id."""
    written = StoredContract(contract, contract.to_json())
    child = _child(context, planned, written, ChildId(planned.call.call_id), parent)
    place = below(context.turn.claims, child.slot, child.step_idx, parent.child_id, parent.contract)
    stored_contract, texts = stripped(contract, place)  # without what follows from `place`
    start = ChildStart(child.child_id, child.slot, child.step_idx, 0, stored_contract, parent=parent.step_idx)
    return NewChild(child, start, texts)


def opened_later(dispatch_id: DispatchId, new: Sequence[NewChild]) -> tuple[ChildrenOpened, Texts]:
    """Return the fact that opens children which do not start together with their dispatch."""
    body = ChildrenOpened(dispatch_id, tuple([each.start for each in new]))
    return body, Texts(contracts=tuple([each.texts for each in new]))


def _child(
    context: CallContext, planned: PlannedCall, written: StoredContract, child_id: ChildId, parent: Child | None = None
) -> Child:
    turn = context.turn
    return Child(
        child_id=child_id,
        call_id=planned.call.call_id,
        dispatch_id=context.dispatch_id,
        step_idx=planned.step_idx,
        tool=planned.tool,
        contract=written.contract,
        contract_json=written.json,
        principal=turn.claims.principal,
        log=ChildLog(child_id, turn.turn_id, planned.tool.slot, planned.step_idx),
        above=None if parent is None else parent.ledger,
    )
