"""The request of a dispatch: reduced for a fact, and restored from the fact.

The body of the fact stores a `StrippedRequest`. The part of the fact that can be erased (`Texts`) stores the
`RequestTexts` and, as its `values`, the answers to questions. Readers get a `DispatchOpened`, whose `request_json` is
the JSON of a `Request` that `request_of` restores from these three; `request_from_json` reads that JSON. A sidecar that
takes a dispatch over needs the request to run the remaining calls, and to compare a repeated request with it.
"""

from collections.abc import Sequence
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final, TypeAlias

import msgspec

from sidecar.core.decoding import from_json
from sidecar.core.dispatching.calls import ToolCall
from sidecar.core.dispatching.questions import Answerer, Answering, Decision
from sidecar.core.identifiers import CallId, DispatchId
from sidecar.core.journal.opening.part import Digests, Part, packed, unpacked

ON_DISCONNECT: Final = "cancel"
"""The default, which facts omit: the calls are cancelled once no listener is left."""
Answer: TypeAlias = tuple[Any, ...]
"""An answer to a question of a sub-agent, as stored: the index of the call that carries it, then the fields of its
`Answering`."""


class StrippedRequest(Part, frozen=True):
    """The request of a dispatch without its texts. See `DispatchRequest`.

    Attributes:
        binding_digest: as in the request.
        on_disconnect: None: the default, `ON_DISCONNECT`.
        call_ids: in emission order; the index of a call is its *place*.
    """

    binding_digest: Digests
    call_ids: tuple[CallId, ...]
    declared_intent_count: int = 0
    on_disconnect: str | None = None
    continue_for: timedelta | None = None
    min_success: int | None = None
    max_parallel: int | None = None
    timeout: timedelta | None = None


class CallTexts(Part, frozen=True):
    """One call as the model wrote it."""

    tool_name: str = ""
    arguments_json: str = ""


class RequestTexts(Part, frozen=True):
    """The texts of a dispatch's request."""

    calls: tuple[CallTexts, ...] = ()
    prior_context: str = ""
    task_prompt: str = ""


class Join(msgspec.Struct, frozen=True):
    """`JoinPolicy`, in its stored form."""

    min_success: int | None
    max_parallel: int | None
    timeout: timedelta | None


class Request(msgspec.Struct, frozen=True):
    """`DispatchRequest` without its token, with the names and the order that `DispatchOpened.request_json` has.

    Attributes:
        surface_token: always empty in a stored request; part of the struct because `DispatchRequest` has it.
    """

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
        """Return the text of `DispatchOpened.request_json`, from which operations restore the request."""
        return msgspec.json.encode(self).decode()


def request_from_json(text: str, dispatch_id: DispatchId) -> Request:
    """Return a stored request. Raises `ValueError` if writing it again would not give the same text."""
    request: Request = from_json(text, Request)
    # A request that loses anything on the way would be run differently after a takeover.
    # A stored request must not contain the token either: a reader of the record could use it for the turn.
    if request.to_json() != text or request.surface_token or request.dispatch_id != dispatch_id:
        raise ValueError(f"the stored request of {dispatch_id} has another form")
    return request


def fingerprint_of(request_json: str) -> str:
    """Return the fingerprint of a request: equal for requests with the same contents."""
    return sha256(request_json.encode()).hexdigest()


def asked_of(request: Request) -> StrippedRequest:
    """Return a request without its texts."""
    # `packed` takes a sequence of digests; here it has one.
    return StrippedRequest(
        packed((request.binding_digest,)),
        tuple(call.call_id for call in request.calls),
        request.declared_intent_count,
        None if request.on_disconnect == ON_DISCONNECT else request.on_disconnect,
        request.continue_for,
        request.join.min_success,
        request.join.max_parallel,
        request.join.timeout,
    )


def texts_of(request: Request) -> RequestTexts:
    """Return the texts of a request."""
    calls = tuple(CallTexts(call.tool_name, call.arguments_json) for call in request.calls)
    return RequestTexts(calls, request.prior_context, request.task_prompt)


def answers_of(calls: Sequence[ToolCall]) -> tuple[Answer, ...]:
    """Return the answers of calls to questions, for `Texts.values` of the fact that opens their dispatch."""
    # Not in the body of the fact, which cannot be erased: an answer is the text of a user.
    answers = list[Answer]()
    for place, call in enumerate(calls):
        if call.answering is not None:
            answers.append((place, *msgspec.structs.astuple(call.answering)))
    return tuple(answers)


def _answering(answer: Answer) -> Answering:
    # After the place, in the order of the fields of `Answering`, as `astuple` wrote them.
    receipt, text, decision, answered_by = answer[1:]
    return Answering(receipt, text, None if decision is None else Decision(decision), Answerer(answered_by))


def request_of(
    dispatch_id: DispatchId, asked: StrippedRequest, texts: RequestTexts, answers: Sequence[Answer] = ()
) -> Request:
    """Return the request as it was before `asked_of`, `texts_of` and `answers_of` took it apart, but without its token.

    After an erasure it has no texts.
    """
    answering = {answer[0]: _answering(answer) for answer in answers} if answers else {}
    # After an erasure only the ids of the calls are left. Number and order of the calls must remain, because outcomes
    # refer to their places.
    calls = texts.calls or (CallTexts(),) * len(asked.call_ids)
    (binding_digest,) = unpacked(asked.binding_digest)
    return Request(
        # The token is larger than the rest of the request, and it can be signed again from the claims.
        surface_token="",
        binding_digest=binding_digest,
        dispatch_id=dispatch_id,
        calls=tuple(
            ToolCall(call_id, call.tool_name, call.arguments_json, answering.get(place))
            for place, (call_id, call) in enumerate(zip(asked.call_ids, calls, strict=True))
        ),
        declared_intent_count=asked.declared_intent_count,
        prior_context=texts.prior_context,
        task_prompt=texts.task_prompt,
        on_disconnect=ON_DISCONNECT if asked.on_disconnect is None else asked.on_disconnect,
        continue_for=asked.continue_for,
        join=Join(asked.min_success, asked.max_parallel, asked.timeout),
    )
