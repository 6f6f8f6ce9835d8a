"""The fact that opens a dispatch, and the reading of a recorded request.

`dispatch_calls` appends the fact before any child starts. It contains all that another sidecar needs to take the
dispatch over.
"""

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from sidecar.core.decoding import from_json
from sidecar.core.dispatching.cap import CapBehaviour
from sidecar.core.journal.child_events import MICROSECOND
from sidecar.core.journal.facts import ChildStart, DispatchOpened, Intents
from sidecar.core.journal.opening.contracts import ContractTexts
from sidecar.core.journal.opening.part import packed
from sidecar.core.journal.opening.requests import CallTexts, RequestTexts, StrippedRequest, answers_of
from sidecar.core.journal.texts import Texts
from sidecar.operations.requests import DispatchRequest, OnDisconnect
from sidecar.operations.turn.state.live_dispatch import LiveDispatch


def opening_of(
    dispatch: LiveDispatch, now: float, starts: Sequence[ChildStart], contracts: Sequence[ContractTexts]
) -> tuple[DispatchOpened, Texts]:
    """Return the fact from which any sidecar can take `dispatch` over, and its texts, which can be erased.

    Args:
        dispatch: passed all checks; not recorded yet.
        now: by the event loop's clock.
        starts: the children that start immediately.
        contracts: their contracts.
    """
    turn, request, plan, intents = dispatch.turn, dispatch.request, dispatch.plan, dispatch.intents
    # Once per turn: the claims are the largest part of the fact, and later dispatches refer to them. They are those of
    # the surface token; `user` is the part that names the user, which belongs to the texts.
    claims = None if turn.claims_recorded else turn.unnamed_claims
    policy, join = request.on_disconnect, request.join
    body = DispatchOpened(
        dispatch.dispatch_id,
        None if claims is None else claims.claims,
        StrippedRequest(
            binding_digest=packed((request.binding_digest,)),  # a column of digests, with one entry
            call_ids=tuple([call.call_id for call in request.calls]),
            declared_intent_count=request.declared_intent_count,
            on_disconnect=None if policy is OnDisconnect.CANCEL else policy.value,
            continue_for=request.continue_for,
            min_success=join.min_success,
            max_parallel=join.max_parallel,
            timeout=join.timeout,
        ),
        plan.first_step,
        # Of the plan, only its inputs are stored: another sidecar computes the rest from the request, the first step
        # and the places that were free when this sidecar made the plan.
        plan.places,
        Intents(intents.declared, intents.emitted, intents.switched, intents.prior_context_missing),
        # As a distance from the fact's time: the event loop's clock means nothing to another process.
        timedelta(seconds=dispatch.settle_at - now) // MICROSECOND,
        None if plan.cap is CapBehaviour.WITHIN else plan.cap,
        tuple(starts),
    )
    calls = tuple([CallTexts(call.tool_name, call.arguments_json) for call in request.calls])
    texts = Texts(
        user=None if claims is None else claims.user,
        request=RequestTexts(calls, request.prior_context, request.task_prompt),
        contracts=tuple(contracts),
        # The user's answers to questions that sub-agents asked in earlier dispatches.
        values=answers_of(request.calls) if dispatch.calls.answers else (),
    )
    return body, texts


def request_from_json(text: str, surface_token: str) -> DispatchRequest:
    """Return the request that is recorded as `text`.

    The record has no token, which can be signed again from the claims. `surface_token` is inserted; it may be empty if
    the caller only reads the request.
    """
    return msgspec.structs.replace(from_json(text, DispatchRequest), surface_token=surface_token)
