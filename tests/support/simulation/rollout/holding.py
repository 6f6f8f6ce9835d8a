"""What each sidecar holds by itself at a moment: kills and ramp-downs that were asked for there, on record or not."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import Any

from tests.support.simulation.rollout import model, wishes
from tests.support.simulation.rollout.facts import RolloutFacts
from tests.support.simulation.rollout.journal import Answered, Began, Fetched, Lived
from tests.support.simulation.rollout.model_values import Definition, Slot

Held = tuple[frozenset[str], frozenset[str]]
"""Contents that are killed here, and such as count as being at 0 %."""
MOST_UNSURE = 8
"""Stops that may hold; every set of them is tried."""


@dataclass(slots=True)
class Stop:
    """One stop at one sidecar.

    Attributes:
        sure: it holds, or the sidecar does what it must not do; else it may hold.
    """

    kill: bool
    content: str
    sure: bool
    request_id: str


@dataclass(slots=True)
class Holdings:
    """Goes along with the journal.

    Attributes:
        stops: by life.
        seen_on: kill flags that were seen on, by life.
        promised: stops that were answered for without a warning, by place: they survive every restart.
    """

    facts: RolloutFacts
    stops: dict[str, list[Stop]] = field(default_factory=dict)
    seen_on: dict[str, dict[str, bool]] = field(default_factory=dict)
    promised: dict[str, list[Stop]] = field(default_factory=dict)

    def take(self, place: int, entry: Any) -> None:
        """Take note of what happened."""
        if isinstance(entry, Lived) and entry.began:
            held = self.stops.setdefault(entry.life, [])
            held += [Stop(stop.kind == "kill", str(stop.digest), True, "") for stop in entry.held]
            held += self.promised.get(_place_of(entry.life), [])
        elif isinstance(entry, Began) and entry.wish.kind in wishes.STOPS and not entry.wish.dry_run:
            self._asked(place, entry)
        elif isinstance(entry, Answered) and entry.wish.kind in wishes.STOPS and not entry.wish.dry_run:
            self._answered(entry)
        elif isinstance(entry, Fetched):
            self._fetched(entry)

    def possible(self, life: str, number: int) -> Iterator[Held]:
        """Yield what may be held at a sidecar whose binds show a state: what is sure, and with it what may be."""
        mine = self.stops.get(life, [])
        sure, maybe = [each for each in mine if each.sure], [each for each in mine if not each.sure]
        # What is on record as ramped down is no longer held: from then on the record speaks.
        maybe += [each for each in sure if not each.kill and self._recorded(each, number)]
        sure = [each for each in sure if each.kill or not self._recorded(each, number)]
        unsure = list(dict.fromkeys((each.kill, each.content) for each in maybe))[:MOST_UNSURE]
        for some in chain.from_iterable(combinations(unsure, size) for size in range(len(unsure) + 1)):
            both = [*((each.kill, each.content) for each in sure), *some]
            yield (
                self._with_revisions(frozenset(content for kill, content in both if kill), number),
                self._with_revisions(frozenset(content for kill, content in both if not kill), number),
            )

    def any_of(self, life: str) -> frozenset[str]:
        """Return every content that is stopped at a sidecar, or may be."""
        return self._with_revisions(frozenset(each.content for each in self.stops.get(life, ())), 0)

    def _asked(self, place: int, began: Began) -> None:
        """It holds at once if the sidecar can know from what it shows that it is to."""
        first, last = self.facts.number_of(began.shows), self.facts.number_at(place)
        meant: dict[str, bool] = {}
        for slots in self.facts.states_between(first, last):
            for slot in slots.values():
                it = slot.meant(began.wish)
                if it is not None:
                    meant[it.content] = meant.get(it.content, True) and _can_stop(slot, it, began)
        sure = len(meant) == 1 and first == last and began.shows >= 0
        held = self.stops.setdefault(began.life, [])
        for content, can in meant.items():
            held.append(Stop(began.wish.kind == wishes.KILL, content, sure and can, began.wish.request_id))

    def _answered(self, told: Answered) -> None:
        kill = told.wish.kind == wishes.KILL
        held = self.stops.setdefault(told.life, [])
        if told.answer is not None:
            content = str(told.answer.digest)
            if kill or "record" not in told.answer.reached:
                held.append(Stop(kill, content, True, told.wish.request_id))
        elif not kill:
            for each in held:
                if each.request_id == told.wish.request_id:
                    each.sure = False

    def _fetched(self, entry: Fetched) -> None:
        """A flag that has fallen may have killed here already, on record or not."""
        was_on = self.seen_on.setdefault(entry.life, {})
        # What it is about may have been revised since, and this sidecar may not show that yet.
        slots = (slot for each in self.facts.states for slot in each.slots.values())
        for it in {(it.content, it.flag): it for slot in slots for it in slot.definitions}.values():
            if it.flag is None:
                continue
            if it.flag in entry.on:
                was_on[it.flag] = True
            elif was_on.get(it.flag) or it.flags == "on":
                held = self.stops.setdefault(entry.life, [])
                if not any(each.content == it.content and each.kill for each in held):
                    held.append(Stop(True, it.content, False, ""))

    def _recorded(self, stop: Stop, number: int) -> bool:
        if not stop.request_id:
            return True
        for step in self.facts.steps:
            if step.wish is not None and step.wish.request_id == stop.request_id and step.changes:
                return self.facts.number_at(step.place) <= number
        return any(step.wish is not None and step.wish.request_id == stop.request_id for step in self.facts.steps)

    def _with_revisions(self, contents: frozenset[str], number: int) -> frozenset[str]:
        """Return contents with the minor revisions that have taken their place: a stop is of the definition."""
        if not contents:
            return contents
        revised = dict(_revisions(self.facts))
        found = set(contents)
        for content in contents:
            at = content
            while at in revised and revised[at] not in found:
                at = revised[at]
                found.add(at)
        return frozenset(found)


def _place_of(life: str) -> str:
    return life.partition("-")[0]


def _revisions(facts: RolloutFacts) -> Iterator[tuple[str, str]]:
    for step in facts.steps:
        for event in step.committed.change.events:
            if event.what == "definition_revised":
                yield event.detail, str(event.digest)


def _can_stop(slot: Slot, it: Definition, began: Began) -> bool:
    if began.wish.kind == wishes.KILL:
        said = model.kill(slot, it, began.wish, 0.0)
        return said.after is not None and said.after is not slot
    return it.state == "promote"
