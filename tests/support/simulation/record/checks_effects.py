"""Promises about tool calls that change something, over all sidecars, attempts and takeovers."""

from collections.abc import Iterator

from tests.support.simulation.cards import EFFECT_TOOL, IDEMPOTENT_TOOL
from tests.support.simulation.connector import ChangeAsked
from tests.support.simulation.record.facts import RecordFacts


def no_effect_happens_twice(facts: RecordFacts) -> Iterator[str]:
    """A service that knows no keys is asked for an effect once, unless it said that it did nothing."""
    for call, asked in _changes(facts, EFFECT_TOOL).items():
        reply = next(
            step.text.partition(" ")[2]
            for step in facts.seen.schedule.scripts[call].attempt(1).steps
            if step.text.startswith(EFFECT_TOOL)
        )
        if len(asked) > 1 and reply != "error":
            yield f"{call}: asked {len(asked)} times, answered {reply}"


def keys_come_first(facts: RecordFacts) -> Iterator[str]:
    """The key of an effect is durable when its request comes."""
    for call, asked in _changes(facts, EFFECT_TOOL).items():
        yield from (f"{call}: {each.key} came before it was on record" for each in asked if not each.durable)


def repeated_calls_keep_their_key(facts: RecordFacts) -> Iterator[str]:
    """Every attempt of a child, at any sidecar, makes the same call with the same key; another call has another one."""
    seen: dict[str | None, str] = {}
    for tool in (EFFECT_TOOL, IDEMPOTENT_TOOL):
        for call, asked in _changes(facts, tool).items():
            keys = {each.key for each in asked}
            if len(keys) > 1 or None in keys:
                yield f"{call}: {tool} came with {sorted(map(str, keys))}"
            for key in keys:
                if seen.setdefault(key, call) != call:
                    yield f"{call}: {tool} came with the key of {seen[key]}"


def _changes(facts: RecordFacts, tool: str) -> dict[str, list[ChangeAsked]]:
    changes: dict[str, list[ChangeAsked]] = {}
    for each in facts.seen.connector.changes:
        if each.tool_id == tool:
            changes.setdefault(each.call, []).append(each)
    return changes
