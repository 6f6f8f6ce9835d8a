"""Watches the configuration folder of the sidecar and holds the newest version of the definitions without errors.

Each check reads all files and compares their contents, not their times. It therefore also detects a restored copy with
an older time, or a swapped link. A configuration is usually some KiB and at most 16 MiB in size.

A version is loaded only after two checks in a row found the same bytes, so that a half-written file is not loaded.
Programs that write for longer than the time between two checks should write a new file and rename it.
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
"""Two checks and a load take less than the two seconds in which a change must take effect."""
LOOKS_AT_START: Final = 5
"""Maximum number of reads of the first check: a start does not wait for files that keep changing."""
CARDS_KEPT: Final = 4_096
"""Maximum number of cards in memory. Open turns need the cards of the version with which they were bound."""


class DefinitionsChange(Struct, frozen=True):
    """A new version of the files was read.

    Attributes:
        loaded: the definitions of the new version, if it has no errors, and its problems.
        revision: digest of the files of the version in use; None: no version without errors was read yet.
        in_force: whether the new version is in use. If not, it has errors, and the last valid version stays in use.
    """

    loaded: LoadedCatalogue
    revision: str | None
    in_force: bool


async def look_interval() -> None:
    """Wait between two checks."""
    await asyncio.sleep(LOOK_EVERY_SECONDS)


class DefinitionsSource:
    """The definitions in one folder.

    Args:
        root: the folder that contains `agent_config.yaml`.
        on_change: called with each new version, with or without errors, on the event loop. Must not raise or block.
        count: returns the number of tokens of a text.
        commits_of: returns the commits in which digests first appeared; called in a thread.
        pause: waits between two checks.
        max_sub_agents: the maximum number of sub-agents of one orchestrator.
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
        """Start without definitions; the first `refresh` reads the files."""
        self._root = root
        self._observers = [on_change]
        self._count = count
        self._commits_of = commits_of
        self._pause = pause
        self._max_sub_agents = max_sub_agents
        # Serialises the checks. Two concurrent checks would read the files at the same time, find the same bytes, and
        # accept a half-written file.
        self._check_lock = asyncio.Lock()
        # Fingerprints of the version that was loaded last, with or without errors, and of a newer one that only one
        # check has seen.
        self._loaded: str | None = None
        self._seen_once: str | None = None
        self._current: Catalogue | None = None
        self._revision: str | None = None
        self._problems: tuple[Problem, ...] = ()
        self._cards: dict[Digest, Card] = {}

    def current(self) -> Catalogue | None:
        """Return the newest valid version; None before the first one."""
        return self._current

    def problems(self) -> tuple[Problem, ...]:
        """Return the problems of the newest version. If errors are among them, an older version is in use."""
        return self._problems

    async def validated(self) -> LoadedCatalogue:
        """Load the present files as `sidecar validate` does. The definitions in use do not change."""
        return await asyncio.to_thread(load_directory, self._root, self._count, self._commits_of, self._max_sub_agents)

    @property
    def revision(self) -> str | None:
        """Digest of all files of the version in use; None if there is none."""
        return self._revision

    def card_by_digest(self, digest: Digest) -> Card | None:
        """Return a card of the version in use or of an earlier one; None if it is not in memory.

        Open turns are bound to such earlier cards.
        """
        return self._cards.get(digest)

    def add_observer(self, tell: Callable[[DefinitionsChange], None]) -> None:
        """Also call `tell` with each new version. It must not raise or block."""
        self._observers.append(tell)

    async def run(self) -> None:
        """Check for changes until cancelled. The supervisor restarts this loop."""
        while True:
            await self._pause()
            await self.refresh()

    async def refresh(self) -> None:
        """Check the files once, and load them if they changed.

        The first check reads the files until two reads agree. A later check loads a new version only if the previous
        check has found the same bytes.
        """
        async with self._check_lock:
            tree = await asyncio.to_thread(read_tree, self._root)
            if self._loaded is None:
                tree = await self._read_until_stable(tree)
            elif tree.fingerprint == self._loaded:
                self._seen_once = None
                return
            elif tree.fingerprint != self._seen_once:
                self._seen_once = tree.fingerprint
                return
            # Loaded from the bytes that were compared. The files may have changed since.
            loaded = await asyncio.to_thread(load_tree, tree, self._count, self._commits_of, self._max_sub_agents)
            self._take(tree.fingerprint, loaded)

    async def _read_until_stable(self, tree: Tree) -> Tree:
        """Read the files until two reads agree, at most `LOOKS_AT_START` times, and return the last read."""
        for _ in range(LOOKS_AT_START):
            again = await asyncio.to_thread(read_tree, self._root)
            if again.fingerprint == tree.fingerprint:
                break
            tree = again
        return tree

    def _take(self, fingerprint: str, loaded: LoadedCatalogue) -> None:
        # Set even if the version has errors: otherwise every check would load and report it again.
        self._loaded, self._seen_once, self._problems = fingerprint, None, loaded.problems
        if loaded.catalogue is not None:
            self._current, self._revision = loaded.catalogue, fingerprint
            self._keep(loaded.catalogue)
        change = DefinitionsChange(loaded, self._revision, loaded.catalogue is not None)
        # Called after `_current` is set, because observers read the new version.
        for tell in self._observers:
            tell(change)

    def _keep(self, catalogue: Catalogue) -> None:
        """Add the cards of a version, and remove the oldest cards beyond the limit, but never one of this version."""
        for card in catalogue.cards.values():
            # Removed and added again, which moves the card to the end of the dictionary: the first card is the oldest.
            self._cards.pop(card.digest, None)
            self._cards[card.digest] = card
        while len(self._cards) > max(CARDS_KEPT, len(catalogue.cards)):
            del self._cards[next(iter(self._cards))]
