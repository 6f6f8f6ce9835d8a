"""Marks: how facts store the events of a child.

A mark is a code and a time, which the rules of the journal read. Beside it, the texts of the fact hold the values of
the event that cannot be derived. Name, actor, summary and details of an event follow from its mark, its values and
earlier facts of its child. The table `FORMS` works in both directions: it derives an event from a mark, and it finds
the mark of an event.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum, unique
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sidecar.core.executing import events
from sidecar.core.faults import Fault
from sidecar.core.identifiers import Digest, Slot

Values = tuple[Any, ...]
"""Strings, integers, booleans, or counts by name: the values of a form's fields, in order.

None marks a field that the event does not have.
"""

SIDECAR_LOST: Final = "sidecar_lost"
FAULT: Final = ("target", "address", "errno", "remedy")
"""Details of an event that say where and how a connection broke, in the order of the fields of `Fault`."""
ASKED: Final = ("kind", "question", "about_json", "answerer", "expires_at")
"""Values of `What.SUSPENDED` that events show; the receipt and the continuation state follow and are never shown."""
TOKENS: Final = ("input_tokens", "output_tokens", "cached_input_tokens")
# Marks store the index of an actor, so an actor may only be added at the end.
ACTORS: Final = ("", events.SIDECAR, events.PARENT, events.OPERATOR, events.SUB_AGENT)
"""By `Mark.actor`; the first entry means the usual actor of the event."""


@unique
class What(IntEnum):
    """The kind of a child's event. A number is never reused for another kind: stored facts contain it."""

    CREATED = 1
    STARTED = 2
    ATTEMPT = 3
    WAITING = 4
    FAILED = 5
    ACCEPTED = 6
    REJECTED = 7
    CLOSED = 8
    TOOL_REFUSED = 9
    DATA_WITHHELD = 10
    REPEATED = 11
    BUDGET_STOPPED = 12
    DELEGATED = 13
    DELEGATION_REFUSED = 14
    TAKEN_OVER = 15
    LEFT_OUT = 16
    SUSPENDED = 17
    CONTINUES = 18
    EFFECT_SENT = 19
    EFFECT_SETTLED = 20


# Unknown fields are refused: a fact of a newer version that is read without one of its fields would be another fact.
class Mark(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One event of a child, without its values.

    Attributes:
        after: microseconds from the fact's time to the event's; negative if the event was earlier.
        actor: index in `ACTORS`.
    """

    what: What
    after: int
    actor: int = 0


class About(msgspec.Struct, frozen=True):
    """The state of a child, from earlier facts and the rest of the same fact, for deriving one of its events.

    Attributes:
        digest: of the definition in its contract.
        attempt: number of the newest attempt; 0 before the first.
        final_status: the final status that the child would have if it were closed now.
        settled: `outcome`, `components`, `data_unavailable` and tokens of the outcome in the same fact; empty if it has
            none.
        delegated: `child_id`, `sub_agent_id` and `step_idx` of the child that it delegates to in the same fact.
    """

    slot: Slot
    step: int
    digest: Digest
    attempt: int
    final_status: str
    settled: Values = ()
    delegated: Values = ()


class Form(msgspec.Struct, frozen=True):
    """How the events of one kind are derived.

    Attributes:
        actor: the usual actor.
        fields: names of the details that the values contain, in order; a mark may have fewer values.
        summary: creates the summary from the details and the state of the child.
        derived: returns values that are not stored, because they follow from the rest of the record; empty: none.
        around: returns details that come before the fields, or that replace fields of the same name.
    """

    name: str
    actor: str
    # Values have no names in a fact, so a field may only be added at the end.
    fields: tuple[str, ...]
    summary: Callable[[Mapping[str, Any], About], str]
    derived: Callable[[About], Values] = lambda about: ()
    around: Callable[[About], dict[str, Any]] = lambda about: {}


def details_of(form: Form, values: Values, about: About) -> dict[str, Any]:
    """Return the details of an event, in the order in which they are written."""
    # A mark without values is an event whose details follow from the record, if its form can derive them.
    stored = values or form.derived(about)
    # Not strict: trailing None values are not stored, and an older fact has fewer values than its form has fields by
    # now.
    told = zip(form.fields, stored, strict=False)
    return form.around(about) | {name: value for name, value in told if value is not None}


def trimmed(values: Values) -> Values:
    """Return the values without trailing None."""
    while values and values[-1] is None:
        values = values[:-1]
    return values


def _place(details: Mapping[str, Any]) -> str:
    """Return where the connection to a host or a service broke, in words."""
    return Fault(*(str(details[name]) for name in FAULT)).in_words()


def _failed(details: Mapping[str, Any], about: About) -> str:
    # Another sidecar wrote this event for a dead one: the usual text would name a cause inside the child, which is
    # unknown.
    if details.get("detail") == SIDECAR_LOST:
        return "failed: its sidecar is gone"
    return f"failed: {details['cause']}{', ' + _place(details) if 'target' in details else ''}"


def _left_out(details: Mapping[str, Any], about: About) -> str:
    return "not listed: " + ", ".join(f"{count} more {name}" for name, count in details["counts"].items())


def _closed(about: About) -> dict[str, Any]:
    return {"sub_agent_id": about.slot, "step_idx": about.step, "final_status": about.final_status}


# Summaries are derived at each read, and the links of events cover them. Another wording changes the links of recorded
# events.
FORMS: Final[Mapping[What, Form]] = MappingProxyType(
    {
        What.CREATED: Form(
            events.CREATED,
            events.SIDECAR,
            (),
            lambda details, about: f"{about.slot} created",
            around=lambda about: {"sub_agent_id": about.slot, "digest": about.digest},
        ),
        What.STARTED: Form(events.STARTED, events.SIDECAR, (), lambda details, about: f"{about.slot} started"),
        What.ATTEMPT: Form(
            events.ATTEMPT,
            events.SIDECAR,
            ("number", "attempt_id"),
            lambda details, about: f"attempt {details['number']}",
        ),
        What.WAITING: Form(
            events.WAITING_FOR_MERGE,
            events.SIDECAR,
            ("outcome", "components", "data_unavailable", *TOKENS),
            lambda details, about: f"{details['outcome']}, waits for the parent",
            # The outcome in the same fact has these values. Storing them twice would make each settled call larger.
            derived=lambda about: about.settled,
        ),
        What.FAILED: Form(events.FAILED, events.SIDECAR, ("cause", "detail", *FAULT, *TOKENS), _failed),
        What.ACCEPTED: Form(
            events.INTEGRATION_ACCEPTED, events.PARENT, (), lambda details, about: "the parent took the result"
        ),
        What.REJECTED: Form(
            events.INTEGRATION_FAILED,
            events.PARENT,
            ("reason",),
            lambda details, about: "the parent could not use the result",
        ),
        What.CLOSED: Form(
            events.CLOSED,
            events.PARENT,
            ("close_reason",),
            lambda details, about: f"closed: {about.final_status}",
            around=_closed,
        ),
        What.TOOL_REFUSED: Form(
            events.TOOL_REFUSED,
            events.SUB_AGENT,
            ("tool", "reason"),
            lambda details, about: f"refused: {details['reason']}",
        ),
        What.DATA_WITHHELD: Form(
            events.DATA_WITHHELD,
            events.SUB_AGENT,
            ("tool", "reason", *FAULT),
            lambda details, about: f"{details['tool']}: withheld, {details['reason']}, {_place(details)}",
        ),
        What.REPEATED: Form(
            events.ATTEMPT_REPEATED,
            events.SIDECAR,
            ("reason", *FAULT),
            lambda details, about: f"attempt {about.attempt} failed: {details['reason']}; another one is made",
        ),
        What.BUDGET_STOPPED: Form(
            events.BUDGET_STOPPED,
            events.SIDECAR,
            ("budget",),
            lambda details, about: f"out of budget: {details['budget']}",
        ),
        What.DELEGATED: Form(
            events.DELEGATED,
            events.SUB_AGENT,
            ("child_id", "sub_agent_id", "step_idx"),
            lambda details, about: f"delegated to {details['sub_agent_id']}",
            # The same fact opens the delegated child and therefore has its id, slot and step.
            derived=lambda about: about.delegated,
        ),
        What.DELEGATION_REFUSED: Form(
            events.DELEGATION_REFUSED,
            events.SUB_AGENT,
            ("tool", "reason"),
            lambda details, about: f"delegation refused: {details['reason']}",
        ),
        What.TAKEN_OVER: Form(
            events.TAKEN_OVER, events.SIDECAR, (), lambda details, about: "another sidecar took it over"
        ),
        What.SUSPENDED: Form(
            events.SUSPENDED,
            events.SUB_AGENT,
            ASKED,
            lambda details, about: f"asks back: {details['kind']}, to be answered by the {details['answerer']}",
        ),
        What.CONTINUES: Form(
            events.CONTINUES,
            events.SIDECAR,
            ("child_id", "turn_id"),
            lambda details, about: f"continues {details['child_id']} of turn {details['turn_id']}",
        ),
        What.LEFT_OUT: Form(events.LEFT_OUT, events.SIDECAR, ("counts",), _left_out),
        What.EFFECT_SENT: Form(
            events.EFFECT_SENT,
            events.SUB_AGENT,
            ("tool", "key"),
            lambda details, about: f"{details['tool']}: an effect is about to be sent, key {details['key']}",
        ),
        What.EFFECT_SETTLED: Form(
            events.EFFECT_SETTLED,
            events.SUB_AGENT,
            ("tool", "key", "result"),
            lambda details, about: f"{details['tool']}: the effect of key {details['key']} is {details['result']}",
        ),
    }
)
