"""Finds the mark that an event comes from: `child_events` backwards."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from sidecar.core.decoding import from_json
from sidecar.core.executing.events import ChildEvent
from sidecar.core.journal.child_events import MICROSECOND, OF_NAME
from sidecar.core.journal.marks import ACTORS, FORMS, About, Form, Mark, Values, details_of, trimmed


class Marked(msgspec.Struct, frozen=True):
    """A mark with its values, and the details of its event."""

    mark: Mark
    values: Values
    details: dict[str, Any]


def marked(event: ChildEvent, at: datetime, about: About) -> Marked:
    """Return the mark from which an event is derived. Raises `ValueError` if there is none.

    Args:
        event: the next one of its child.
        at: the time of the fact that is to hold it.
        about: what is known of the child, before the event.
    """
    what = OF_NAME.get(event.name)
    form = None if what is None else FORMS[what]
    details: dict[str, Any] = from_json(event.details_json, dict)
    values = None if form is None else values_of(form, details, about)
    if what is None or form is None or values is None or form.summary(details, about) != event.summary:
        raise ValueError(f"event {event.event_id} ({event.name}) is of no form: {event.summary}, {event.details_json}")
    actor = 0 if event.actor == form.actor else ACTORS.index(event.actor)
    return Marked(Mark(what, (event.time - at) // MICROSECOND, actor), values, details)


def values_of(form: Form, details: Mapping[str, Any], about: About) -> Values | None:
    """Return the values with which `details_of` returns `details`; None if there are none."""
    values = trimmed(tuple(details.get(name) for name in form.fields))
    if values == form.derived(about):
        values = ()
    found = details_of(form, values, about)
    return values if found == details and list(found) == list(details) else None
