"""Clock, ids, spawner, recorder, flags and definitions of the made-up world."""

import asyncio
from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from sidecar.adapters.virtual_time import VirtualLoop
from sidecar.core.definitions.cards.card import Card, Catalogue
from sidecar.core.flag_states import FlagValue
from sidecar.core.identifiers import Digest
from sidecar.core.rollout.bucketing import WHOLE
from sidecar.core.rollout.view import RolloutView
from tests.support.promoted import promoted

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)


class JumpingClock:
    """A wall clock that can be set wrong, and the loop's own time that cannot."""

    def __init__(self, loop: VirtualLoop) -> None:
        """Begin right."""
        self._loop = loop
        self.wrong_by = timedelta(0)

    def now(self) -> datetime:
        """Return what the wall clock says."""
        return BEGIN + self.wrong_by + timedelta(seconds=self._loop.time())

    def monotonic(self) -> float:
        """Return the loop's time."""
        return self._loop.time()


class CountedIds:
    """Ids that are the same in each run."""

    def __init__(self, of: str = "") -> None:
        """Begin at 1; `of` tells those of several processes apart."""
        self._of = of
        self._made = 0

    def new(self, kind: str) -> str:
        """Return the next."""
        self._made += 1
        return f"{kind}-{self._of}{self._made}"


class WatchedChance:
    """Chance, and what it gave."""

    def __init__(self, loop: VirtualLoop, seed: str) -> None:
        """Begin with nothing drawn."""
        self._loop = loop
        self._random = Random(seed)
        self.drawn: list[tuple[float, float]] = []

    def uniform(self, low: float, high: float) -> float:
        """Return a number, and keep it with the time at which it was drawn."""
        number = self._random.uniform(low, high)
        self.drawn.append((self._loop.time(), number))
        return number


class WatchedSpawner:
    """Makes tasks and keeps what they raise."""

    def __init__(self, loop: VirtualLoop) -> None:
        """Begin without tasks."""
        self._loop = loop
        self.strays: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run `work`."""
        if self._loop.is_closed():
            work.close()  # of a process that is being buried
        task: asyncio.Task[None] = self._loop.create_task(work, name=name)
        task.add_done_callback(self._ended)
        self.tasks.append(task)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.strays.append(f"{task.get_name()}: {error!r}")


class KeepingRecorder:
    """Keeps whatever it is told."""

    def __init__(self, loop: VirtualLoop) -> None:
        """Begin with nothing."""
        self._loop = loop
        self.told: list[tuple[float, str, tuple[Any, ...]]] = []

    def of(self, name: str) -> list[tuple[Any, ...]]:
        """Return what was told under one name."""
        return [told for _, each, told in self.told if each == name]

    def __getattr__(self, name: str) -> Any:
        def keep(*told: Any) -> None:
            self.told.append((self._loop.time(), name, told))

        return keep


class AllOn:
    """Every flag is on."""

    narrowed = False

    def current(self) -> "AllOn":
        """Return itself."""
        return self

    def value(self, flag_name: str, vertical: str | None = None) -> FlagValue:
        """Return on."""
        return FlagValue.ON

    def share(self, flag_name: str, vertical: str | None = None) -> int:
        """Return everybody."""
        return WHOLE


class FixedDefinitions:
    """One catalogue."""

    def __init__(self, cards: Sequence[Card]) -> None:
        """Keep the cards."""
        self._by_digest: dict[Digest, Card] = {}
        self.load(cards)

    def load(self, cards: Sequence[Card]) -> None:
        """Serve other cards; those before are kept for turns that are bound to them."""
        self._by_digest |= {card.digest: card for card in cards}
        by_id = {card.definition.id: card for card in cards}
        slots = {card.definition.slot: (card.definition.id,) for card in cards if not card.definition.is_orchestrator}
        tools = {tool.id: tool for card in cards for tool in card.tools}
        blocks = frozenset(block.id for card in cards for block in card.blocks)
        self._catalogue = Catalogue(by_id, slots, tools, "1", "1", "1", blocks)
        self._promoted = promoted(self._catalogue)

    def current(self) -> Catalogue:
        """Return the catalogue."""
        return self._catalogue

    def promoted(self) -> RolloutView:
        """Return rollouts in which all of it is promoted."""
        return self._promoted

    def card_by_digest(self, digest: Digest) -> Card | None:
        """Return a card."""
        return self._by_digest.get(digest)
