"""Compares the joined result of a replay with the result that the parent received.

The last part of a replay: it tells whether the code of today makes the same result from the recorded inputs.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from sidecar.core.dispatching.outcomes import Answer, CallOutcome, Usage
from sidecar.core.identifiers import DispatchId
from subagents_errors import CallFailure

NOT_OF_THE_DISPATCH = (CallFailure.RECORD_UNAVAILABLE, CallFailure.SIDECAR_LOST, CallFailure.COST_BUDGET)
"""Reasons of a failed store or process, or of other turns. A replay of the sub-agents cannot reproduce them."""
SHOWN = 60
"""The most characters of a differing text that are shown."""


def compared(
    told: Mapping[DispatchId, Sequence[CallOutcome]], replayed: Mapping[DispatchId, Sequence[CallOutcome]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (differences, notes) in words; without differences the results are equal.

    Args:
        told: recorded outcomes, by dispatch, in any order: the parent got them in emission order.
        replayed: the joined results of the replay.

    A note names a call that cannot be compared. Source: SX-50.
    """
    differences: list[str] = []
    notes: list[str] = []
    for dispatch_id, joined in replayed.items():
        before = sorted(told.get(dispatch_id, ()), key=lambda outcome: outcome.emission_index)
        known = {outcome.call_id: outcome for outcome in before}
        # Only calls with a recorded outcome have a place in the order; the others become notes below.
        order, now = [each.call_id for each in before], [each.call_id for each in joined if each.call_id in known]
        # Reported first: with another order, the differences of single calls are mostly a consequence.
        if order != now:
            differences.append(f"{dispatch_id}: the order was {', '.join(order)}; it is now {', '.join(now)}")
        for outcome in joined:
            where = f"{dispatch_id} {outcome.call_id}"
            note = _note(known.get(outcome.call_id))
            if note:
                notes.append(f"{where}: {note}")
            else:
                differences += [f"{where}: {each}" for each in _differences(known[outcome.call_id], outcome)]
    return tuple(differences), tuple(notes)


def _note(told: CallOutcome | None) -> str:
    if told is None:
        return "not compared: no outcome is on record"
    # The replay has a store that works and no other turns, so it cannot reproduce these failures.
    if told.reason in NOT_OF_THE_DISPATCH:
        why = "because a store or a process failed, or a budget was used up"
        return f"not compared: the parent was told {told.reason}, {why}"
    # A receipt belongs to a question of an earlier turn, which the document does not contain.
    if told.reason is not None and told.reason.name.startswith("RECEIPT_"):
        return f"not compared: the call was refused as {told.reason}, which the record of another turn decides"
    return ""


def _tokens(usage: Usage | None) -> Usage | None:
    """Return tokens without their cost, because prices may have changed."""
    return None if usage is None else replace(usage, cost=None)


def _differences(told: CallOutcome, now: CallOutcome) -> Iterator[str]:
    for what, before, after in (
        ("sub-agent", told.sub_agent_id, now.sub_agent_id),
        ("emission index", told.emission_index, now.emission_index),
        ("outcome", told.outcome.value, now.outcome.value),
        ("reason", _named(told.reason), _named(now.reason)),
        ("attempts", told.attempts, now.attempts),
        # Prices may have changed since, so only tokens are compared.
        ("usage", _tokens(told.usage), _tokens(now.usage)),
        ("question", told.question and told.question.digest, now.question and now.question.digest),
    ):
        if before != after:
            yield f"{what} was {before}; it is now {after}"
    yield from _answers(told.answer, now.answer)


def _answers(told: Answer, now: Answer) -> Iterator[str]:
    if told.narration != now.narration:
        yield f"narration {_from_where_they_part(told.narration, now.narration)}"
    if told.data_unavailable != now.data_unavailable:
        yield f"data unavailable was {told.data_unavailable}; it is now {now.data_unavailable}"
    if len(told.components) != len(now.components):
        yield f"components were {len(told.components)}; they are now {len(now.components)}"
    # Not strict: different numbers of components were reported above, and the common ones are compared nevertheless.
    for place, (before, after) in enumerate(zip(told.components, now.components, strict=False)):
        for what in ("name", "tool_input_json", "component_data_json"):
            one, other = getattr(before, what), getattr(after, what)
            if one != other:
                yield f"component {place} {what} {_from_where_they_part(one, other)}"


def _from_where_they_part(told: str, now: str) -> str:
    # If one text begins with the other, the difference is at the end of the shorter one.
    at = next((place for place, (a, b) in enumerate(zip(told, now, strict=False)) if a != b), min(len(told), len(now)))
    return f"differs from character {at}: was {told[at : at + SHOWN]!r}; is now {now[at : at + SHOWN]!r}"


def _named(reason: CallFailure | None) -> str:
    return "none" if reason is None else str(reason)
