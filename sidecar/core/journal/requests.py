"""Claims, the request of a dispatch and the contracts of its children, taken apart for a fact and put together again.

A contract says again what the request says, and where its child stands. Only what differs is kept: a text that is the
request's is None, and a value that follows from the child's place is empty.
"""

from datetime import timedelta
from hashlib import sha256

import msgspec

from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.decoding import Undecodable, from_json
from sidecar.core.dispatching.calls import ToolCall
from sidecar.core.executing.contract import GOAL_SUMMARY_LIMIT, Contract
from sidecar.core.identifiers import ChildId, DispatchId, Principal, Slot, TurnId
from sidecar.core.journal.facts import Asked
from sidecar.core.journal.texts import CallTexts, ContractTexts, RequestTexts, UserTexts


class Join(msgspec.Struct, frozen=True):
    """`JoinPolicy`, as it is written."""

    min_success: int | None
    max_parallel: int | None
    timeout: timedelta | None


class Request(msgspec.Struct, frozen=True):
    """`DispatchRequest` without its token, as `DispatchOpened.request_json` writes it: same names, same order."""

    surface_token: str
    binding_digest: str
    dispatch_id: DispatchId
    calls: tuple[ToolCall, ...]
    declared_intent_count: int
    prior_context: str
    task_prompt: str
    on_disconnect: str
    continue_for: timedelta | None
    join: Join

    def to_json(self) -> str:
        """Return the text whose fingerprint a repeated request is known by."""
        return msgspec.json.encode(self).decode()


def request_from_json(text: str, dispatch_id: DispatchId) -> Request:
    """Return the request that was written down. Raises `ValueError` if it cannot be written again as it was."""
    request: Request = from_json(text, Request)
    if request.to_json() != text or request.surface_token or request.dispatch_id != dispatch_id:
        raise ValueError(f"the request of {dispatch_id} is written otherwise")
    return request


class UnnamedClaims(msgspec.Struct, frozen=True):
    """Claims, and apart from them what names the user."""

    claims: SurfaceClaims
    user: UserTexts


def unnamed(claims: SurfaceClaims) -> UnnamedClaims:
    """Return claims in the two parts that a fact has of them."""
    user = UserTexts(claims.principal, claims.locale, claims.location)
    return UnnamedClaims(_for_user(claims, UserTexts()), user)


def named(parts: UnnamedClaims) -> SurfaceClaims:
    """Return the claims that `unnamed` took apart."""
    return _for_user(parts.claims, parts.user)


def _for_user(claims: SurfaceClaims, user: UserTexts) -> SurfaceClaims:
    return msgspec.structs.replace(
        claims, principal=Principal(user.principal), locale=user.locale, location=user.location
    )


def fingerprint_of(request_json: str) -> str:
    """Return what two requests with the same contents share."""
    return sha256(request_json.encode()).hexdigest()


def asked_of(request: Request) -> Asked:
    """Return the part of a request that is no text."""
    return Asked(
        request.binding_digest,
        tuple(call.call_id for call in request.calls),
        request.declared_intent_count,
        request.on_disconnect,
        request.continue_for,
        request.join.min_success,
        request.join.max_parallel,
        request.join.timeout,
    )


def texts_of(request: Request) -> RequestTexts:
    """Return the texts of a request."""
    calls = tuple(CallTexts(call.tool_name, call.arguments_json) for call in request.calls)
    return RequestTexts(calls, request.prior_context, request.task_prompt)


def request_of(dispatch_id: DispatchId, asked: Asked, texts: RequestTexts) -> Request:
    """Return the request again; without texts if they were erased."""
    calls = texts.calls or (CallTexts(),) * len(asked.call_ids)
    return Request(
        surface_token="",
        binding_digest=asked.binding_digest,
        dispatch_id=dispatch_id,
        calls=tuple(
            ToolCall(call_id, call.tool_name, call.arguments_json)
            for call_id, call in zip(asked.call_ids, calls, strict=True)
        ),
        declared_intent_count=asked.declared_intent_count,
        prior_context=texts.prior_context,
        task_prompt=texts.task_prompt,
        on_disconnect=asked.on_disconnect,
        continue_for=asked.continue_for,
        join=Join(asked.min_success, asked.max_parallel, asked.timeout),
    )


class Place(msgspec.Struct, frozen=True):
    """What a contract repeats of its child, and of who asked for it.

    Attributes:
        said: texts that the contract has if it says nothing of its own.
        parent: the child that delegates to it.
    """

    turn_id: TurnId
    slot: Slot
    step: int
    said: ContractTexts
    parent: ChildId | None = None


def said_in(request: Request, place: int) -> ContractTexts:
    """Return what a request says that the contract of one of its calls repeats."""
    call = request.calls[place]
    return ContractTexts(
        description=_asked_in(call),
        task_prompt=request.task_prompt,
        goal_summary=request.prior_context[:GOAL_SUMMARY_LIMIT],
        title=call.tool_name,
    )


def said_above(contract: Contract) -> ContractTexts:
    """Return what the contract of a child that delegates says, and the contract below it repeats."""
    return ContractTexts(task_prompt=contract.step.description, goal_summary=contract.parent.goal_summary)


def stripped(contract: Contract, place: Place) -> tuple[Contract, ContractTexts]:
    """Return a contract without what `place` says, and its own texts. Raises `ValueError` if it contradicts it."""
    known = place.said
    texts = ContractTexts(
        description=_unless(contract.step.description, known.description),
        task_prompt=_unless(contract.parent.task_prompt, known.task_prompt),
        goal_summary=_unless(contract.parent.goal_summary, known.goal_summary),
        title=_unless(contract.step.title, known.title),
    )
    replace = msgspec.structs.replace
    bare = replace(
        contract,
        parent=replace(contract.parent, run_id="", step_idx=0, task_prompt="", goal_summary=""),
        step=replace(contract.step, title="", description=""),
        sub_agent_id=Slot(""),
        definition_id=_other(contract.definition_id, contract.sub_agent_id),
        definition_commit=_other(contract.definition_commit, contract.definition_digest),
        ownership=() if contract.ownership == _own(place) else contract.ownership,
        parent_child_id=None,
    )
    if restored(bare, texts, place) != contract:
        raise ValueError("the contract contradicts the place of its child")
    return bare, texts


def restored(bare: Contract, texts: ContractTexts, place: Place) -> Contract:
    """Return the contract that `stripped` took apart."""
    known, replace = place.said, msgspec.structs.replace
    return replace(
        bare,
        parent=replace(
            bare.parent,
            run_id=place.turn_id,
            step_idx=place.step,
            task_prompt=_or(texts.task_prompt, known.task_prompt),
            goal_summary=_or(texts.goal_summary, known.goal_summary),
        ),
        step=replace(
            bare.step, title=_or(texts.title, known.title), description=_or(texts.description, known.description)
        ),
        sub_agent_id=place.slot,
        definition_id=bare.definition_id or place.slot,
        definition_commit=bare.definition_commit or bare.definition_digest,
        ownership=bare.ownership or _own(place),
        parent_child_id=place.parent,
    )


def _own(place: Place) -> tuple[str, ...]:
    return (f"slot:{place.slot}",)


def _asked_in(call: ToolCall) -> str:
    """Return the words in which a call asks, if its arguments say them under the usual name; else the arguments."""
    try:
        request = from_json(call.arguments_json, dict)
    except Undecodable:
        return call.arguments_json
    said = request.get("request")
    return said if isinstance(said, str) else call.arguments_json


def _other(text: str, usual: str) -> str:
    return "" if text == usual else text


def _unless(text: str, known: str | None) -> str | None:
    return None if text == known else text


def _or(text: str | None, known: str | None) -> str:
    return text if text is not None else known or ""
