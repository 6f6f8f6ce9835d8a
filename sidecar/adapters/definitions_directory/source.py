"""Watches a configuration and holds the newest version that loads.

Contents are compared, never times: an in-place write, a rename, a swapped link and a file with an older time are all
noticed. Every check reads all files; a configuration is limited to a few MiB and usually has some KiB. A version is
accepted only when two checks in a row saw the same bytes, so that a half-written file is not loaded. Programs that
write more slowly should write a new file and rename it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

from sidecar.adapters.definitions_directory.files import Tree, read_tree
from sidecar.adapters.definitions_directory.loading import load_directory, load_tree
from sidecar.core.definitions.cards.card import SUB_AGENTS_AT_MOST, Card, Catalogue
from sidecar.core.definitions.files.problems import Problem
from sidecar.core.definitions.prompt_size import TokenCounter, estimated_tokens
from sidecar.core.definitions.resolve import CommitsOf, LoadedCatalogue, no_commit
from sidecar.core.identifiers import Digest

LOOK_EVERY_SECONDS: Final = 0.5
"""Two looks and a load stay within the two seconds in which a change must show."""
LOOKS_AT_START: Final = 5
CARDS_KEPT: Final = 4_096


class DefinitionsChange(Struct, frozen=True):
    """A new state was seen.

    Attributes:
        loaded: the result of loading.
        revision: of the state now in force; None: none ever loaded.
        in_force: whether that is this state; False: it has errors, and the last good one stays.
    """

    loaded: LoadedCatalogue
    revision: str | None
    in_force: bool


async def look_interval() -> None:
    """Wait between two checks."""
    await asyncio.sleep(LOOK_EVERY_SECONDS)


class DefinitionsSource:
    """The definitions below one folder.

    Args:
        root: the folder that holds `agent_config.yaml`.
        on_change: told of each new state, good or bad, on the event loop; must not raise or block.
        count: tokens of a text, for the model.
        commits_of: where digests first appeared; called in a thread.
        pause: waits between two looks.
        max_sub_agents: sub-agents of one orchestrator that its model is offered.
    """

    def __init__(
        self,
        root: Path,
        on_change: Callable[[DefinitionsChange], None],
        count: TokenCounter = estimated_tokens,
        commits_of: CommitsOf = no_commit,
        pause: Callable[[], Awaitable[None]] = look_interval,
        max_sub_agents: int = SUB_AGENTS_AT_MOST,
    ) -> None:
        """Nothing is read before the first `refresh`."""
        self._root = root
        self._tell = [on_change]
        self._count = count
        self._commits_of = commits_of
        self._pause = pause
        self._most = max_sub_agents
        self._looking = asyncio.Lock()
        self._taken: str | None = None
        self._settling: str | None = None
        self._current: Catalogue | None = None
        self._revision: str | None = None
        self._problems: tuple[Problem, ...] = ()
        self._cards: dict[Digest, Card] = {}

    def current(self) -> Catalogue | None:
        """Return the newest state that loaded, or None if none ever did."""
        return self._current

    def problems(self) -> tuple[Problem, ...]:
        """Return the problems of the newest state, in force or not; errors among them mean an older one is in force."""
        return self._problems

    async def validated(self) -> LoadedCatalogue:
        """Load the present files, as `sidecar validate` does; the definitions in force do not change."""
        return await asyncio.to_thread(load_directory, self._root, self._count, self._commits_of, self._most)

    @property
    def revision(self) -> str | None:
        """Digest of all files of the state in force; None if there is none."""
        return self._revision

    def card_by_digest(self, digest: Digest) -> Card | None:
        """Return a card of this or an earlier state, for turns that were bound to it, or None if it is not kept."""
        return self._cards.get(digest)

    def add_observer(self, tell: Callable[[DefinitionsChange], None]) -> None:
        """Also call `tell` with each new version; it must not raise or block."""
        self._tell.append(tell)

    async def run(self) -> None:
        """Check for changes until cancelled. The owner supervises."""
        while True:
            await self._pause()
            await self.refresh()

    async def refresh(self) -> None:
        """Check once. The first check accepts what it finds; a later one only what the previous check saw, too."""
        async with self._looking:
            tree = await asyncio.to_thread(read_tree, self._root)
            if self._taken is None:
                tree = await self._settled(tree)
            elif tree.fingerprint == self._taken:
                self._settling = None
                return
            elif tree.fingerprint != self._settling:
                self._settling = tree.fingerprint
                return
            loaded = await asyncio.to_thread(load_tree, tree, self._count, self._commits_of, self._most)
            self._take(tree.fingerprint, loaded)

    async def _settled(self, tree: Tree) -> Tree:
        """Read until two reads agree, but only a few times: a start must not wait for files that keep changing."""
        for _ in range(LOOKS_AT_START):
            again = await asyncio.to_thread(read_tree, self._root)
            if again.fingerprint == tree.fingerprint:
                break
            tree = again
        return tree

    def _take(self, fingerprint: str, loaded: LoadedCatalogue) -> None:
        self._taken, self._settling, self._problems = fingerprint, None, loaded.problems
        if loaded.catalogue is not None:
            self._current, self._revision = loaded.catalogue, fingerprint
            self._keep(loaded.catalogue)
        change = DefinitionsChange(loaded, self._revision, loaded.catalogue is not None)
        for tell in self._tell:
            tell(change)

    def _keep(self, catalogue: Catalogue) -> None:
        """Keep every card seen, the oldest states' giving way; cards of the state in force are the newest."""
        for card in catalogue.cards.values():
            self._cards.pop(card.digest, None)
            self._cards[card.digest] = card
        while len(self._cards) > max(CARDS_KEPT, len(catalogue.cards)):
            del self._cards[next(iter(self._cards))]
