"""Requests that break one rule of the protos each, and requests at the limit of a rule; made from the rules."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor_pool import Default
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from subagents.rules import RULES, Rule

SAMPLES: Final = {
    "^[!-~]{1,128}$": "x-{}",
    "^[!-~]{0,128}$": "x-{}",
    "^[a-z0-9][a-z0-9_-]{0,59}$": "shop",
    "^([a-z0-9][a-z0-9_-]{0,59})?$": "shop",
    "^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,7}$": "en-US",
    "^([0-9]{4}-[0-9]{2}-[0-9]{2})?$": "2026-02-28",
}
"""A text for each pattern; ids are numbered, since some have to differ."""
LONGEST: Final = {
    "^[!-~]{1,128}$": ["!" * 128, "~"],
    "^[!-~]{0,128}$": ["!" * 128, ""],
    "^[a-z0-9][a-z0-9_-]{0,59}$": ["a" * 60, "0"],
    "^([a-z0-9][a-z0-9_-]{0,59})?$": ["a" * 60, ""],
    "^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,7}$": ["de", "abcdefgh" + "-abcdefgh" * 7],
    "^([0-9]{4}-[0-9]{2}-[0-9]{2})?$": [""],
}
OUTSIDE: Final = {
    "^[!-~]{1,128}$": ["", "a b", "x" * 129, "ä", "x\n", "\x7f"],
    "^[!-~]{0,128}$": ["a b", "x" * 129, "x\n"],
    "^[a-z0-9][a-z0-9_-]{0,59}$": ["", "Shop", "-shop", "a" * 61, "shop\n"],
    "^([a-z0-9][a-z0-9_-]{0,59})?$": ["Shop", "-shop", "a" * 61, "shop\n"],
    "^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,7}$": ["", "e", "en_US", "en-US\n", "abcdefgh" + "-abcdefgh" * 8],
    "^([0-9]{4}-[0-9]{2}-[0-9]{2})?$": ["20260201", "2026-02-28\n", "2026-2-28"],
}
DAY: Final = 86_400
FAR: Final = 999
"""A number that no enum has."""


class Case(NamedTuple):
    """One request.

    Attributes:
        field: path of the field that the case is about.
        request: what is sent.
        allowed: whether the rule allows it.
    """

    field: str
    request: Message
    allowed: bool


def cases_of(kind: type[Message], complete: Callable[[Any], None] = lambda _: None) -> Iterator[Case]:
    """Yield, for each rule that a request and the messages in it have, requests beyond and at each of its limits.

    Args:
        kind: of the request.
        complete: fills in what the rules do not ask for, and the receiver does.
    """
    for parents, rule in _paths(kind.DESCRIPTOR):
        for allowed, fill in _fills(rule):
            request = kind()
            _make_valid(request, itertools.count())
            complete(request)
            message: Any = request
            for parent in parents:
                inner = getattr(message, parent.field)
                if parent.kind == "list":
                    inner = inner[0] if inner else inner.add()
                else:
                    inner.SetInParent()
                _make_valid(inner, itertools.count(1000))
                message = inner
            where = "".join(f"{each.field}{'[0]' if each.kind == 'list' else ''}." for each in parents)
            field = fill(message)
            yield Case(f"{where}{field}", request, allowed)


def _paths(descriptor: Any, before: tuple[Rule, ...] = ()) -> Iterator[tuple[tuple[Rule, ...], Rule]]:
    for rule in RULES.get(descriptor.full_name, ()):
        if rule.kind != "message":
            yield before, rule
        if rule.message:
            yield from _paths(descriptor.fields_by_name[rule.field].message_type, (*before, rule))


def _fills(rule: Rule) -> Iterator[tuple[bool, Callable[[Any], str]]]:
    """Yield functions that fill a field, and whether the rule allows what they fill in."""
    if rule.kind == "list":
        yield from _lists(rule)
    else:
        for allowed, value in _values(rule):
            yield allowed, _setting(rule.field, value)


def _setting(field: str, value: Any) -> Callable[[Any], str]:
    def fill(message: Any) -> str:
        if isinstance(value, tuple):
            duration = getattr(message, field)
            duration.seconds, duration.nanos = value
            duration.SetInParent()
        else:
            setattr(message, field, value)
        return field

    return fill


def _lists(rule: Rule) -> Iterator[tuple[bool, Callable[[Any], str]]]:
    def of(count: int) -> Callable[[Any], str]:
        def fill(message: Any) -> str:
            message.ClearField(rule.field)
            values, numbers = getattr(message, rule.field), itertools.count()
            for _ in range(count):
                if rule.message:
                    _make_valid(values.add(), numbers)
                else:
                    values.append(_sample(rule.each, numbers) if rule.each else 1 + next(numbers))
            return rule.field

        return fill

    if rule.least:
        yield False, of(rule.least - 1)
    yield True, of(max(1, rule.least or 0))
    if rule.most is not None:
        yield True, of(rule.most)
        yield False, of(rule.most + 1)
    if rule.each is not None:
        for allowed, value in _values(rule.each):

            def fill(message: Any, value: Any = value) -> str:
                getattr(message, rule.field).append(value)
                return f"{rule.field}[0]"

            yield allowed, fill


def _values(rule: Rule) -> Iterator[tuple[bool, Any]]:
    if rule.kind == "number":
        for limit, beyond in ((rule.least, -1), (rule.most, 1)):
            if limit is not None:
                yield True, limit
                yield False, limit + beyond
    elif rule.kind == "enum":
        yield from ((True, number) for number in rule.allowed)
        yield from ((False, number) for number in (0, max(rule.allowed) + 1, FAR) if number not in rule.allowed)
    elif rule.kind == "duration":
        yield from ((True, length) for length in ((0, 1000), (DAY, 0)))
        yield from ((False, length) for length in ((0, 0), (-1, 0), (DAY, 1000)))
    elif rule.pattern:
        yield from ((True, text) for text in LONGEST[rule.pattern])
        yield from ((False, text) for text in OUTSIDE[rule.pattern])
    else:
        yield from _lengths(rule)


def _lengths(rule: Rule) -> Iterator[tuple[bool, Any]]:
    if rule.least:
        yield True, "x" * rule.least
        yield False, "x" * (rule.least - 1)
    if rule.most is not None:
        yield True, "x" * rule.most
        yield True, "\U0001f600" * rule.most  # two units of UTF-16, four bytes: one character
        yield False, "x" * (rule.most + 1)
    if rule.most_bytes is not None and rule.field == "state":
        yield True, b"x" * rule.most_bytes
        yield False, b"x" * (rule.most_bytes + 1)
    elif rule.most_bytes is not None:
        yield True, "ä" * (rule.most_bytes // 2)
        yield False, "ä" * (rule.most_bytes // 2) + "x"


def _make_valid(message: Any, numbers: Iterator[int]) -> None:
    """Fill what the rules of a message do not allow to be empty."""
    for rule in RULES.get(message.DESCRIPTOR.full_name, ()):
        if rule.kind == "message" and rule.field in {"header", "dispatch"}:
            _make_valid(getattr(message, rule.field), numbers)
            getattr(message, rule.field).SetInParent()
        elif rule.kind == "list" and rule.least and not getattr(message, rule.field):
            _make_valid(getattr(message, rule.field).add(), numbers)
        elif rule.kind in {"text", "number", "enum"} and not rule.may_be_absent and not getattr(message, rule.field):
            value = _sample(rule, numbers)
            if value is not None:
                setattr(message, rule.field, value)


def _sample(rule: Rule, numbers: Iterator[int]) -> Any:
    """Return a value where an empty one is not allowed; None: it is."""
    if rule.kind == "text" and rule.pattern:
        return SAMPLES[rule.pattern].format(next(numbers)) if "" in OUTSIDE[rule.pattern] else None
    if rule.kind == "text":
        return "x" if rule.least else None
    if rule.kind == "enum":
        return None if 0 in rule.allowed else rule.allowed[0]
    return None if rule.least is None or rule.least <= 0 else rule.least


def message_type(full_name: str) -> type[Message]:
    """Return the class of a message of the generated code that is loaded."""
    return GetMessageClass(Default().FindMessageTypeByName(full_name))


DEPENDS: Final = {
    "BindTurnRequest.user_token": "refused by the identity of the issuer, see tests/system/test_verified_principals.py",
    "DispatchRequest.join.min_success": "at most the number of calls, too",
    "DispatchRequest.continue_for": "allowed with ON_DISCONNECT_CONTINUE_UNTIL only",
    "DispatchUnaryRequest.dispatch.join.min_success": "at most the number of calls, too",
    "DispatchUnaryRequest.dispatch.continue_for": "allowed with ON_DISCONNECT_CONTINUE_UNTIL only",
    "TransitionRequest.target_state": "a roll-back has an RPC of its own",
    "TakeDecommissionStepRequest.step": "step 3 needs `code`",
    "TakeDecommissionStepRequest.code": "goes with step 3 only",
    "ListActivePeriodsRequest.principal": "either a user or a share",
    "ListActivePeriodsRequest.share_basis_points": "either a user or a share",
    "ListTurnsRequest.reason": "a reason for which a call can end",
    "EraseUserRequest.reason": "a stream; its handler is not reached by one step",
}
"""Values that a rule allows, and that the sidecar may refuse for the reason given here."""
