"""Translates elicitations: a server's elicitation becomes a question, and the user's answer the elicitation's result.

A server asks in one of two ways. Since revision 2026-07-28 of the protocol, the result of the call says that input is
required, and the call is repeated with the responses. In older revisions, the server sends a request while it runs the
call. The connector responds with `cancel`, because there is no answer yet. The call of a later turn carries the answer;
the server gets it when it sends the request again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import msgspec
from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitRequestURLParams, ElicitResult
from pydantic import ValidationError

from sidecar.core.decoding import DecodeError, from_json
from sidecar.policy.protocols import Asked, Decision, EnricherAsks, QuestionKind, ServiceAnswer

ON_BEHALF_META: Final = "sidecar.subagents/enricher"
"""Member of `_meta` with the user and the request. The sub-agent, which writes the arguments, cannot change it."""
ELICITATION: Final = "elicitation/create"
Elicitation = ElicitRequestFormParams | ElicitRequestURLParams


class _State(msgspec.Struct, frozen=True):
    """State of a question, which returns with the answer.

    Attributes:
        digest: digest of the elicitation; the answer is used for no other elicitation.
        schema: schema of the form; empty if the elicitation has a URL.
        key: name of the elicitation in the result that required input; empty if the server sent a request.
        request_state: `requestState` of this result; None if it had none or the server sent a request.
    """

    digest: str
    schema: dict[str, Any]
    key: str = ""
    request_state: str | None = None


@dataclass(slots=True)
class Interview:
    """The elicitations of one call.

    Attributes:
        answer: answer of the user to the question of an earlier call; None if there is none.
        may_ask: whether a request of the server may become a question. False for a call with an effect, because the
            server may have caused the effect in spite of `cancel`.
        asked: first elicitation without an answer; None if there is none.
    """

    answer: ServiceAnswer | None
    may_ask: bool
    asked: Elicitation | None = None
    _answer_used: bool = False

    def respond(self, params: ElicitRequestParams) -> ElicitResult:
        """Return the user's answer if it belongs to this elicitation and was not returned yet, else `cancel`."""
        result = None if self.answer is None or self._answer_used else result_of(self.answer, params)
        if result is not None:
            self._answer_used = True
            return result
        if self.may_ask and self.asked is None:
            self.asked = params
        return ElicitResult(action="cancel")

    def retry(self) -> Mapping[str, Any]:
        """Return the params of the call that answer an earlier result that required input; empty if there is none."""
        state = None if self.answer is None else _state_in(self.answer.state)
        if self.answer is None or state is None or not state.key:
            return {}
        result = _answered(self.answer, state.schema)
        if result is None:
            return {}
        responses = {state.key: result.model_dump(mode="json", by_alias=True, exclude_none=True)}
        repeated = {} if state.request_state is None else {"requestState": state.request_state}
        return {"inputResponses": responses, **repeated}


def required_by(result: Mapping[str, Any], place: str) -> EnricherAsks | None:
    """Return the question in a result that requires input; None unless the result requires exactly one elicitation."""
    requests, request_state = result.get("inputRequests"), result.get("requestState")
    if not isinstance(requests, Mapping) or len(requests) != 1 or not isinstance(request_state, str | None):
        return None
    ((key, request),) = requests.items()
    if not isinstance(request, Mapping) or request.get("method") != ELICITATION or not key:
        return None
    params = request.get("params")
    form = isinstance(params, Mapping) and params.get("mode", "form") == "form"
    try:
        asked = (ElicitRequestFormParams if form else ElicitRequestURLParams).model_validate(params)
    except (ValidationError, RecursionError):
        return None
    return question_of(asked, place, result.get("_meta"), key, request_state)


def question_of(
    params: Elicitation, place: str, meta: object, key: str = "", request_state: str | None = None
) -> EnricherAsks:
    """Return an elicitation as a question: a form with values asks for input, a confirmation for approval.

    A URL asks for authorisation.

    Args:
        params: the elicitation.
        place: endpoint of the tool, without its pin.
        meta: `_meta` of the server's request, or of its result that requires input. Its member `ON_BEHALF_META`, which
            the server repeats from the call, says which user the question is for.
        key: name of the elicitation in a result; empty for a request.
        request_state: `requestState` of a result.
    """
    schema, named = _schema_of(params), _member(meta, ON_BEHALF_META)
    state = msgspec.json.encode(_State(_digest_of(params), schema, key, request_state))
    about: dict[str, Any] = {"server": place}
    if isinstance(params, ElicitRequestURLParams):
        kind, about["url"] = QuestionKind.NEEDS_AUTHORISATION, params.url
    else:
        kind = QuestionKind.NEEDS_INPUT if _asks_for_values(schema) else QuestionKind.NEEDS_APPROVAL
        about["schema"] = schema
    asked = Asked(kind, params.message, json.dumps(about), state=state)
    return EnricherAsks(asked, _text_in(named, "principal"), _text_in(named, "nonce"))


def result_of(answer: ServiceAnswer, params: Elicitation) -> ElicitResult | None:
    """Return the result of an elicitation; None if the answer belongs to another one or does not fit the form."""
    state = _state_in(answer.state)
    if state is None or state.digest != _digest_of(params):
        return None
    return _answered(answer, state.schema)


def _answered(answer: ServiceAnswer, schema: Mapping[str, Any]) -> ElicitResult | None:
    if answer.decision is Decision.DECLINED:
        return ElicitResult(action="decline")
    if answer.kind is QuestionKind.NEEDS_AUTHORISATION:
        return ElicitResult(action="accept")
    if answer.kind is QuestionKind.NEEDS_APPROVAL:
        return ElicitResult(action="accept", content=dict.fromkeys(_properties_of(schema), True))
    try:
        return ElicitResult(action="accept", content=_content_of(answer.text, _properties_of(schema)))
    except (DecodeError, ValidationError, ValueError):
        return None


def _content_of(text: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a form: the text is a JSON object of values, or the only value of the form."""
    if len(properties) > 1:
        return from_json(text, dict[str, Any])
    ((name, form),) = properties.items()
    kind = form.get("type", "string") if isinstance(form, Mapping) else "string"
    return {name: text if kind == "string" else from_json(text)}


def _member(holder: object, name: str) -> object:
    return holder.get(name) if isinstance(holder, Mapping) else None


def _text_in(named: object, member: str) -> str | None:
    value = _member(named, member)
    return value if isinstance(value, str) else None


def _asks_for_values(schema: Mapping[str, Any]) -> bool:
    """Return whether a form needs values, i.e. has fields other than a single boolean."""
    forms = list(_properties_of(schema).values())
    return bool(forms) and not (len(forms) == 1 and isinstance(forms[0], Mapping) and forms[0].get("type") == "boolean")


def _properties_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _schema_of(params: Elicitation) -> dict[str, Any]:
    return {} if isinstance(params, ElicitRequestURLParams) else dict(params.requested_schema)


def _digest_of(params: Elicitation) -> str:
    """Return the SHA-256 of everything that the user sees: message, form and URL."""
    url = params.url if isinstance(params, ElicitRequestURLParams) else ""
    covered = json.dumps([params.message, _schema_of(params), url], sort_keys=True)
    return sha256(covered.encode()).hexdigest()


def _state_in(state: bytes) -> _State | None:
    try:
        return msgspec.json.decode(state, type=_State)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
