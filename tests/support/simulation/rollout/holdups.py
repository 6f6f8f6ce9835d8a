"""What may hold a decommission up: turns that are open, and what a sidecar has loaded; as it was at some time."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.support.simulation.rollout import cards, model_leaving, wishes
from tests.support.simulation.rollout.journal import (
    Bound,
    Called,
    Committed,
    ConfigLoaded,
    Ended,
    Lived,
    Shown,
    Switched,
)
from tests.support.simulation.rollout.model_values import Definition, Slot
from tests.support.simulation.rollout.wishes import Wish

LONGEST_BIND = 2.0
"""Seconds after which nobody waits for a turn to be bound any more."""


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of the journal in which one sidecar worked on something. `first`, `last`: places; `ended`: seconds."""

    life: str
    first: int
    last: int
    ended: float


@dataclass(slots=True)
class Holdups:
    """Everything that holds decommissions up, by place in the journal.

    Attributes:
        loaded: configurations by life.
        bound: place, time and contents, by life and turn.
        called, ended: by turn.
        shown: when binds showed another version, and which, by life; what was bound until then was said, too.
        changed: when there was another version to show, and which if a rollout changed; flags have none here.
    """

    loaded: dict[str, list[tuple[int, cards.Variants]]] = field(default_factory=dict)
    bound: dict[tuple[str, str], list[tuple[int, float, tuple[str, ...]]]] = field(default_factory=dict)
    called: dict[str, int] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    shown: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    changed: list[tuple[int, int]] = field(default_factory=list)

    def take(self, place: int, at: float, entry: Any) -> None:
        """Take note of what happened."""
        if isinstance(entry, ConfigLoaded):
            self.loaded.setdefault(entry.life, []).append((place, entry.variants))
        elif isinstance(entry, Bound) and not entry.reason:
            contents = tuple(content for _, content in entry.serves)
            self.bound.setdefault((entry.life, entry.turn), []).append((place, at, contents))
        elif isinstance(entry, Called):
            self.called[entry.turn] = place
        elif isinstance(entry, Ended):
            self.ended[entry.turn] = place
        elif isinstance(entry, Lived):
            self.shown.setdefault(entry.life, [])
        elif isinstance(entry, Shown):
            self.shown.setdefault(entry.life, []).append((place, entry.version))
        elif isinstance(entry, Switched):
            self.changed.append((place, 0))
        elif isinstance(entry, Committed):
            self.changed.append((place, entry.version))

    def _may_be_unseen(self, span: Span) -> bool:
        """Say whether a sidecar may have shown an older state at some time in a span; dead ones count for a while."""
        changed = [(place, version) for place, version in self.changed if place <= span.last]
        newest = max((version for _, version in changed), default=0)
        for all_shown in self.shown.values():
            shown = [(place, version) for place, version in all_shown if place <= span.last]
            before = shown and [version for place, version in shown if place < span.first][-1:]
            if any(version < newest for version in (*(before or [-1]), *(version for _, version in shown))):
                return True
            if any(not any(place < seen < span.first for seen, _ in shown) for place, _ in changed):
                return True
        return False

    def must_wait(self, slot: Slot, wish: Wish, span: Span) -> str:
        """Return why a wish has to be refused, whenever in a span it is looked at; empty: nothing is sure to be."""
        it = slot.meant(wish)
        if it is None or wish.kind not in wishes.HELD_UP:
            return ""
        if any(self._open(it, span, sure=True)):
            return "turns are bound to it"
        held_up = [_needed(slot, it, wish, variants) for variants in self._configs(span)]
        return held_up[0] if held_up and all(held_up) else ""

    def may_wait(self, slot: Slot, wish: Wish, span: Span) -> bool:
        """Say whether a wish may have had to be refused at some time in a span."""
        it = slot.meant(wish)
        if it is None or wish.kind not in wishes.HELD_UP:
            return False
        if any(self._open(it, span, sure=False)) or (wish.kind == wishes.BEGIN and self._may_be_unseen(span)):
            return True
        return any(_needed(slot, it, wish, variants) for variants in self._configs(span))

    def _configs(self, span: Span) -> list[cards.Variants]:
        mine = self.loaded.get(span.life, [])
        before = [variants for place, variants in mine if place < span.first][-1:]
        return [*before, *(variants for place, variants in mine if span.first <= place <= span.last)]

    def _open(self, it: Definition, span: Span, *, sure: bool) -> Iterator[bool]:
        """Yield True for each turn that is open for a sidecar in a span: all the time, or at some time.

        A turn that was bound to another content of the same id counts, too: entry, modules and blocks are the id's.
        """
        contents = cards.contents_of(it.name)
        for (life, turn), times in self.bound.items():
            place, at, bound_to = times[0]
            if contents.isdisjoint(bound_to):
                continue
            known_from = place if life == span.life else self.called.get(turn, span.last + 1)
            known_from = min(known_from, self.called.get(turn, known_from))
            gone = self.ended.get(turn, span.last + 1)
            if sure and known_from < span.first and gone > span.last:
                yield True
            elif not sure and gone > span.first:
                yield known_from <= span.last or (life == span.life and at <= span.ended + LONGEST_BIND)
            if not sure and life != span.life:
                yield self._may_be_said(life, place, gone, span)

    def _may_be_said(self, life: str, bound: int, gone: int, span: Span) -> bool:
        """Say whether what a sidecar said last in a span had a turn in it, which it bound and which may have ended."""
        said = [place for place, _ in self.shown.get(life, ()) if place > bound]
        again = next((place for place in said if place > gone), span.last + 1)
        return bool(said) and said[0] <= span.last and again > span.first


def _needed(slot: Slot, it: Definition, wish: Wish, variants: cards.Variants) -> str:
    if wish.kind != wishes.TAKE:
        return ""
    config, its = cards.config_for_the_model(variants), cards.parts_of(it.content)
    return next(model_leaving.in_the_way(slot, it, wish.step, config, its), "")
