"""Checks a request against the rules of the protos before it is sent.

The sidecar enforces these rules too. The check raises the exception that the sidecar would answer with, but saves the
round trip.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from subagents.rules import RULES, Rule
from subagents_errors import FieldProblem, InvalidRequest

ID: Final = "must be 1 to 128 printable ASCII characters without spaces"
PATTERNS: Final[Mapping[str, str]] = {
    "^[!-~]{1,128}$": ID,
    "^[!-~]{0,128}$": f"{ID}, or empty",
    "^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,7}$": "must be a BCP 47 tag such as en-US; leave it out if it is unknown",
    "^([0-9]{4}-[0-9]{2}-[0-9]{2})?$": "must be a day as YYYY-MM-DD, or empty",
}
"""Pattern of a rule to its description in messages. A pattern without a description is quoted."""
NANOS: Final = 1_000_000_000
PRESENT: Final = frozenset({"message", "duration"})
"""Kinds of fields that may always be absent. Only a present value is checked."""


def check_request(request: Any) -> None:
    """Raise `InvalidRequest` if fields break rules; its `fields` has one problem for each of them."""
    problems = problems_of(request)
    if not problems:
        return
    first, more = problems[0], len(problems) - 1
    others = f" (and {more} more {'field' if more == 1 else 'fields'})" if more else ""
    name = request.DESCRIPTOR.name
    error = InvalidRequest(f"{name} cannot be used: {first.field} {first.description}{others}", fields=problems)
    error.add_note("nothing was sent: correct the request; `fields` says what is wrong where")
    raise error


def problems_of(message: Any, within: str = "") -> list[FieldProblem]:
    """Return one problem for each field of a message that breaks a rule, in the order of the fields.

    Args:
        message: a message of the generated code.
        within: path of the message, put before its fields' names, e.g. `calls[0].`; empty: the whole request.
    """
    problems: list[FieldProblem] = []
    for rule in RULES.get(message.DESCRIPTOR.full_name, ()):
        name, kind = rule.field, rule.kind
        if kind == "list":
            problems += _in_list(rule, getattr(message, name), within + name)
        elif (kind not in PRESENT and not rule.may_be_absent) or message.HasField(name):
            if kind == "message":
                problems += problems_of(getattr(message, name), f"{within}{name}.")
            elif problem := CHECKS[kind](rule, getattr(message, name)):
                problems.append(FieldProblem(within + name, problem))
    return problems


def _in_list(rule: Rule, values: Any, name: str) -> list[FieldProblem]:
    least, most, each = rule.least or 0, rule.most, rule.each
    if len(values) < least or (most is not None and len(values) > most):
        return [FieldProblem(name, f"must be {_range(least, most)}, were {len(values)}")]
    problems: list[FieldProblem] = []
    for place, value in enumerate(values):
        if rule.message:
            problems += problems_of(value, f"{name}[{place}].")
        elif each is not None and (problem := CHECKS[each.kind](each, value)):
            problems.append(FieldProblem(f"{name}[{place}]", problem))
    return problems


def _text(rule: Rule, value: str | bytes) -> str:
    if rule.pattern and isinstance(value, str) and not _compiled(rule.pattern).match(value):
        return PATTERNS.get(rule.pattern, f"must match {rule.pattern}")
    if len(value) < (rule.least or 0):
        return "is empty" if rule.least == 1 else f"must have at least {rule.least} characters"
    if rule.most is not None and len(value) > rule.most:
        return f"is over {rule.most} characters"
    most = rule.most_bytes
    # A character has at most 4 bytes in UTF-8, so a text with at most a quarter of the limit fits without encoding it.
    if most is not None and len(value) * 4 > most:
        raw = value.encode("utf-8", "replace") if isinstance(value, str) else value
        if len(raw) > most:
            return f"is over {most // 1024} KiB"
    return ""


def _number(rule: Rule, value: int) -> str:
    if (rule.least is None or value >= rule.least) and (rule.most is None or value <= rule.most):
        return ""
    return f"must be {_range(rule.least, rule.most)}, was {value}"


def _enum(rule: Rule, value: int) -> str:
    return "" if value in rule.allowed else f"must be one of the numbers {', '.join(map(str, rule.allowed))}"


def _duration(rule: Rule, value: Any) -> str:
    nanos = value.seconds * NANOS + value.nanos
    if 0 < nanos <= (rule.most or 0) * NANOS:
        return ""
    return f"must be more than 0 and at most {(rule.most or 0) // 3600} hours"


def _range(least: int | None, most: int | None) -> str:
    if most is None:
        return f"{least} or more"
    return f"from {least or 0} to {most}"


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.removesuffix("$") + r"\Z")


CHECKS: Final[Mapping[str, Any]] = {"text": _text, "number": _number, "enum": _enum, "duration": _duration}
