"""What came of a run, sorted: each commit with the wish behind it, and what the model makes of that."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from sidecar.core.rollout.events import RolloutEvent, RolloutEventKind
from sidecar.operations.rollout import requests
from tests.support.simulation.ports import BEGIN
from tests.support.simulation.rollout import cards, model, wishes
from tests.support.simulation.rollout.holdups import Holdups, Span
from tests.support.simulation.rollout.journal import Answered, Began, Committed, Gated, Lived
from tests.support.simulation.rollout.model_values import Definition, Said, Slot
from tests.support.simulation.rollout.translating import asked_of, rows_of, slot_of, without_what_is_over
from tests.support.simulation.rollout.wishes import Wish
from tests.support.simulation.rollout.world import RolloutSeen

KILL_SWITCH: Final = "kill-switch"
CONFIGURATION: Final = "configuration"
WATCH: Final = "decommission-watch"
DONE: Final = "done"

HELD: Final = requests.HELD
"""Follows the id of a held step whose own id was used for something else."""


@dataclass(frozen=True, slots=True)
class Step:
    """One commit.

    Attributes:
        place: in the journal.
        decided: wall-clock seconds at which the sidecar decided it.
        wish: what it was asked for; None: the configuration brought it, or nobody asked.
        before: the slot of the model before it.
        said: what the model says of it; None: nobody asked.
        found: the slot as it is on record after it.
        answered: kind of the kept answer: `done`, or a reason; empty: none is kept.
    """

    place: int
    at: float
    life: str
    committed: Committed
    decided: float
    wish: Wish | None
    before: Slot
    said: Said | None
    found: Slot
    answered: str

    @property
    def changes(self) -> bool:
        """Whether the rollout is another one."""
        return self.committed.change.rollout is not None


@dataclass(slots=True)
class State:
    """All slots from one place in the journal on. `version`: of the store at that commit."""

    place: int
    version: int
    slots: Mapping[str, Slot]


@dataclass(slots=True)
class RolloutFacts:
    """One run.

    Attributes:
        states: after each change of a rollout, the first as it was at the beginning.
        binds: kept by who has judged them, so that it is done once.
    """

    seen: RolloutSeen
    steps: list[Step] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    began: dict[str, list[tuple[int, float, Began]]] = field(default_factory=dict)
    answers: dict[str, list[tuple[int, float, Answered]]] = field(default_factory=dict)
    gated: dict[str, list[tuple[int, Gated]]] = field(default_factory=dict)
    lived: list[tuple[int, float, Lived]] = field(default_factory=list)
    holdups: Holdups = field(default_factory=Holdups)
    binds: Any = None
    _places: list[int] = field(default_factory=list)

    def number_at(self, place: int) -> int:
        """Return the number of the state that is on record at a place in the journal."""
        return bisect_right(self._places, place) - 1

    def number_of(self, version: int) -> int:
        """Return the number of the state that a version of the store has."""
        return max((number for number, each in enumerate(self.states) if each.version <= version), default=0)

    def states_between(self, first: int, last: int) -> Iterator[Mapping[str, Slot]]:
        """Yield the states from one number to another."""
        for each in self.states[first : last + 1]:
            yield each.slots

    def span_of(self, wish: Wish, life: str, last: int) -> Span:
        """Return in which piece of the journal a sidecar worked on a wish, at the most, up to a place."""
        began = [
            place for place, _, each in self.began.get(wish.request_id, ()) if (each.wish, each.life) == (wish, life)
        ]
        return Span(life, min(began, default=0), last, self.seen.journal.entries[last][0])

    def keep(self, place: int, version: int, slots: Mapping[str, Slot]) -> None:
        """Add a state."""
        self.states.append(State(place, version, slots))
        self._places.append(place)


def rollout_facts_of(seen: RolloutSeen) -> RolloutFacts:
    """Sort what was seen, and let the model go along."""
    facts = RolloutFacts(seen)
    facts.keep(-1, 0 if not seen.began_as else len(seen.began_as), {each.name: each for each in seen.began_as})
    for place, at, entry in ((place, at, entry) for place, (at, entry) in enumerate(seen.journal.entries)):
        facts.holdups.take(place, at, entry)
        if isinstance(entry, Committed):
            _commit(facts, place, at, entry)
        elif isinstance(entry, Began):
            facts.began.setdefault(entry.wish.request_id, []).append((place, at, entry))
        elif isinstance(entry, Answered):
            facts.answers.setdefault(entry.wish.request_id, []).append((place, at, entry))
        elif isinstance(entry, Gated):
            facts.gated.setdefault(entry.request_id, []).append((place, entry))
        elif isinstance(entry, Lived):
            facts.lived.append((place, at, entry))
    return facts


def seconds(at: datetime) -> float:
    """Return wall-clock seconds."""
    return (at - BEGIN).total_seconds()


def _commit(facts: RolloutFacts, place: int, at: float, entry: Committed) -> None:
    change, slots = entry.change, facts.states[-1].slots
    before = slots.get(change.slot, Slot(change.slot))
    decided = _decided(entry)
    wish = _wish_behind(facts, entry)
    said = _said(facts, entry, before, wish, decided)
    found = before if change.rollout is None else slot_of(change.rollout, decided)
    answered = change.answer.kind if change.answer else ""
    step = Step(place, at, entry.life, entry, decided, wish, before, said, found, answered)
    facts.steps.append(step)
    if change.rollout is not None:
        # What is on record goes on, right or wrong: one wrong step is told once.
        agreed = said is not None and said.after is not None and same(said.after, found, decided)
        now = said.after if agreed and said is not None and said.after is not None else found
        facts.keep(place, entry.version, {**slots, change.slot: now})


def said_to_change(step: Step) -> bool:
    """Say whether the rules make another slot of it."""
    return step.said is not None and step.said.after is not None and step.said.after is not step.before


def same(model_slot: Slot, found: Slot, now: float) -> bool:
    """Say whether the model and the record agree; the order of definitions and what is over do not matter."""
    return _sorted(without_what_is_over(model_slot, now)) == _sorted(without_what_is_over(found, now))


def _sorted(slot: Slot) -> Slot:
    return replace(slot, definitions=tuple(sorted(slot.definitions, key=lambda each: each.content)))


def _decided(entry: Committed) -> float:
    change = entry.change
    for each in rows_of(change):
        return seconds(each.at)
    return seconds(change.answer.at) if change.answer else entry.wall


def _wish_behind(facts: RolloutFacts, entry: Committed) -> Wish | None:
    """Return what somebody asked for: by its id, and by its contents if an id was used twice."""
    change = entry.change
    written = rows_of(change)
    request_id = change.answer.request_id if change.answer else written[0].request_id if written else ""
    request_id = request_id.removesuffix(HELD)
    wanted = list(dict.fromkeys(began.wish for _, _, began in facts.began.get(request_id, ())))
    if change.answer is not None:
        fingerprint = change.answer.fingerprint
        wanted = [each for each in wanted if asked_of(each).fingerprint == fingerprint]
    elif len(wanted) > 1:
        down = any(isinstance(each, RolloutEvent) and each.what is RolloutEventKind.RAMPED_DOWN for each in written)
        kind = wishes.RAMP_DOWN if down else wishes.KILL  # stops act though their id was used for something else
        wanted = [each for each in wanted if each.kind == kind and each.name == written[0].subagent_id]
    if wanted:
        return wanted[0]
    if request_id.startswith(f"{KILL_SWITCH}/"):
        content = request_id.partition("/")[2]
        name = next((each.subagent_id for each in written), _name_of(content))
        return Wish(request_id, wishes.KILL, name, KILL_SWITCH, "", content)
    return None


def _name_of(content: str) -> str:
    found = (
        name for name in cards.SLOT_OF for variant in cards.VARIANTS if cards.card(name, variant).digest == content
    )
    return next(found, "")


def _said(facts: RolloutFacts, entry: Committed, before: Slot, wish: Wish | None, now: float) -> Said | None:
    change = entry.change
    if wish is not None:
        return _of_a_wish(facts, entry, before, wish, now)
    actors = {each.actor for each in rows_of(change)}
    if actors == {WATCH}:
        return _window_passed(facts, entry, before, now)
    if actors != {CONFIGURATION} or not change.events:
        return None
    for _, variants in facts.seen.schedule.catalogues:
        for slot, card in cards.cards_for_the_model(variants):
            if (slot, card.content) == (change.slot, change.events[0].digest):
                said = model.see(before, card, at_once=facts.seen.schedule.at_once)
                if change.rollout is not None and said.after is not None and said.after.active != change.rollout.active:
                    continue  # alone in one configuration, and not in another
                return said
    return None


def _window_passed(facts: RolloutFacts, entry: Committed, before: Slot, now: float) -> Said | None:
    """Say that a decommission which is late now is one row, and that nothing else changes."""
    (event,) = rows_of(entry.change)
    it = before.of(str(event.digest))
    if it is None or not is_late(it, facts.seen.schedule.window, now):
        return None
    return Said(before, happened=(("decommission_overdue", it.content, 0, 0),))


def is_late(it: Definition, window: float, wall: float) -> bool:
    """Say whether the decommission of a definition has outlived its window."""
    return it.leaving is not None and not it.leaving.over and wall >= it.leaving.began + window - 1e-6


def _of_a_wish(facts: RolloutFacts, entry: Committed, before: Slot, wish: Wish, now: float) -> Said:
    """Let the model decide; a stop is about what was meant when it was asked for, even if that was revised since."""
    written = rows_of(entry.change)
    if wish.kind == wishes.KILL or (wish.kind == wishes.RAMP_DOWN and written):
        meant = meant_by_kill(facts, entry.change.slot, wish)
        touched = next((each.digest for each in written), None)
        contents = [touched] if touched is not None else [each.content for each in before.definitions]
        kept = entry.change.answer
        known = [it for it in (before.of(content) for content in contents) if it is not None]
        gone = before.of_none_of(meant)
        told = [
            model.decide(before, replace(wish, content=it.content, name=it.name), now)
            for it in known
            if it.content in meant or it.content == wish.content or (it.name == wish.name and gone)
        ]
        done = kept is None or kept.kind == DONE
        if told:
            return next((each for each in told if (each.after is not None) is done), told[0])
    return model.decide(before, wish, now)


def meant_by_kill(facts: RolloutFacts, slot: str, wish: Wish) -> frozenset[str]:
    """Return the contents that a kill may be about: what its words meant since it was asked for, as revised since."""
    found: dict[str, bool] = {}
    if wish.subject == KILL_SWITCH:
        found[wish.content] = True
    else:
        shown = [facts.number_of(began.shows) for _, _, began in facts.began.get(wish.request_id, ())]
        for slots in facts.states_between(min(shown, default=0), len(facts.states)):
            it = slots[slot].meant(wish) if slot in slots else None
            if it is not None:
                found[it.content] = True
    for step in facts.steps:  # in order, so that a revision of a revision is found, too
        for event in step.committed.change.events:
            if event.what == "definition_revised" and event.detail in found:
                found[str(event.digest)] = True
    return frozenset(found)


def not_configured(facts: RolloutFacts, wish: Wish, slots: Iterable[Slot]) -> bool:
    """Say whether a wish is to promote a content that some configuration of the run does not have."""
    meant = [it.content for slot in slots if (it := slot.meant(wish)) is not None]
    every = [cards.cards_for_the_model(variants) for _, variants in facts.seen.schedule.catalogues]
    known = [{card.content: True for _, card in each} for each in every]
    return wish.kind == wishes.PROMOTE and any(content not in each for each in known for content in meant)
