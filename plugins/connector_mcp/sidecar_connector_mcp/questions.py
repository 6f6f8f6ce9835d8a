"""Elicitation: what a server asks the user during a call becomes a question, and the user's answer its result.

A server asks in one of two ways. Since revision 2026-07-28 the result of the call says that input is required, and the
call is repeated with the responses. Before, the server sends a request of its own while it carries the call out: it is
told that there is no answer yet (`cancel`), and gets the answer when it asks again in the call of the next turn.
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
"""Member of `_meta` with the user and the request. Arguments come from a sub-agent and cannot change it."""
ELICITATION: Final = "elicitation/create"
Elicitation = ElicitRequestFormParams | ElicitRequestURLParams


class _State(msgspec.Struct, frozen=True):
    """What the answer needs.

    Attributes:
        digest: of the elicitation. Another one has not been answered.
        key, request_state: of a result that required input; empty and None if the server sent a request.
    """

    digest: str
    schema: dict[str, Any]
    key: str = ""
    request_state: str | None = None


@dataclass(slots=True)
class Interview:
    """What a server may ask during one call.

    Attributes:
        answer: what the user answered before; None: nothing.
        may_ask: whether a request of the server may become a question. Not for an effect: after `cancel` it is not
            known what the server has done.
        asked: the elicitation that has no answer yet.
    """

    answer: ServiceAnswer | None
    may_ask: bool
    asked: Elicitation | None = None
    _told: bool = False

    def respond(self, params: ElicitRequestParams) -> ElicitResult:
        """Return the user's answer if it is to this very question, and only once; otherwise `cancel`."""
        known = None if self.answer is None or self._told else result_of(self.answer, params)
        if known is not None:
            self._told = True
            return known
        if self.may_ask and self.asked is None:
            self.asked = params
        return ElicitResult(action="cancel")

    def retry(self) -> Mapping[str, Any]:
        """Return the members of the call's params that answer a result which required input."""
        state = None if self.answer is None else _state_in(self.answer.state)
        if self.answer is None or state is None or not state.key:
            return {}
        result = _answered(self.answer, state.schema)
        if result is None:
            return {}
        responses = {state.key: result.model_dump(mode="json", by_alias=True, exclude_none=True)}
        again = {} if state.request_state is None else {"requestState": state.request_state}
        return {"inputResponses": responses, **again}


def required_by(result: Mapping[str, Any], place: str) -> EnricherAsks | None:
    """Return the question of a result that requires input; None if it requires anything but one elicitation."""
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
    """Return an elicitation as a question. A confirmation is an approval, an address an authorisation.

    Args:
        params: the elicitation.
        place: of the tool.
        meta: `_meta` of the server's request, or of its result that requires input: it says for whom the question is,
            with the member that the call had.
        key: of the elicitation in a result.
        request_state: of a result.
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
    """Return what a server is told; None if the user answered another question, or nothing that fits its form."""
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
    """Return the values of a form: those of a JSON object, or the text as the form's one value."""
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
    """Return whether a form has more than a yes or no."""
    forms = list(_properties_of(schema).values())
    return bool(forms) and not (len(forms) == 1 and isinstance(forms[0], Mapping) and forms[0].get("type") == "boolean")


def _properties_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _schema_of(params: Elicitation) -> dict[str, Any]:
    return {} if isinstance(params, ElicitRequestURLParams) else dict(params.requested_schema)


def _digest_of(params: Elicitation) -> str:
    """Return the SHA-256 of all that the user is shown: message, form and address."""
    url = params.url if isinstance(params, ElicitRequestURLParams) else ""
    covered = json.dumps([params.message, _schema_of(params), url], sort_keys=True)
    return sha256(covered.encode()).hexdigest()


def _state_in(state: bytes) -> _State | None:
    try:
        return msgspec.json.decode(state, type=_State)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
