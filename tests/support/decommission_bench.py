"""An operator between a sidecar and a configuration repository in git, with `shop` on its way out.

async with a_bench(tmp_path) as bench:
    await bench.patched()
    code, out, errors = await bench.step()
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sidecar.adapters.definitions_directory.cleanup.inspect_checkout import look
from sidecar.adapters.definitions_directory.cleanup.patch_draft import patch_of
from sidecar.adapters.definitions_directory.loading import load_directory
from sidecar.cli.subagent import cleanup
from sidecar.cli.subagent import decommission as verbs
from sidecar.cli.validate.checkouts import Checkouts
from sidecar.core.rollout.checkout_inspection import MODULES
from sidecar.core.rollout.decommission_facts import CodeStatus
from sidecar.core.rollout.states import LifecycleState
from tests.support.checkouts import a_repository, applied
from tests.support.config_repository import ConfigRepository
from tests.support.decommissions import loaded
from tests.support.operator_desk import Desk, wish
from tests.support.operators import OperatedSidecar, an_operated_sidecar

CHECKOUTS = Checkouts(patch_of, look)
GONE, DEPRECATED = CodeStatus.GONE, CodeStatus.DEPRECATED


@dataclass
class Bench:
    """A sidecar whose configuration is what the repository holds."""

    sidecar: OperatedSidecar
    desk: Desk
    repository: ConfigRepository

    @property
    def at(self) -> cleanup.CheckoutLocation:
        """The checkout."""
        return cleanup.CheckoutLocation(CHECKOUTS, self.repository.root, MODULES)

    async def merged(self) -> None:
        """Let the sidecar load what the repository holds now."""
        catalogue = load_directory(self.repository.root).catalogue
        assert catalogue is not None
        await loaded(self.sidecar, catalogue)

    async def say(self, command: Any, *arguments: Any, **given: Any) -> tuple[int, str, str]:
        """Run a command."""
        return await self.desk.say(command, *arguments, **given)

    async def step(
        self, number: int = 0, code: CodeStatus = GONE, word: str = "", **given: Any
    ) -> tuple[int, str, str]:
        """Run `step` with the checkout."""
        return await self.say(verbs.step, wish(), self.at, number, code, word, **given)

    async def unseen_step(self, number: int = 0, word: str = "looked") -> tuple[int, str, str]:
        """Run `step` on the operator's word alone."""
        nowhere = cleanup.CheckoutLocation(CHECKOUTS, None, MODULES)
        return await self.say(verbs.step, wish(), nowhere, number, GONE, word)

    async def patched(self, **fields: Any) -> str:
        """Have the next patch written, merge it, and load it; return what it changed."""
        code, diff, errors = await self.say(cleanup.patch, cleanup.PatchOptions("shop", **fields), self.at)
        assert code == 0, errors
        changed = applied(self.repository, diff)
        await self.merged()
        return changed


@asynccontextmanager
async def a_bench(folder: Path, *, begun: bool = True) -> AsyncIterator[Bench]:
    """Serve the repository's configuration, with `shop` rolled back and its decommission begun."""
    repository = a_repository(folder / "config")
    catalogue = load_directory(repository.root).catalogue
    assert catalogue is not None
    cards = [card for card in catalogue.cards.values() if not card.definition.is_orchestrator]
    async with an_operated_sidecar(*cards) as sidecar:
        bench = Bench(sidecar, Desk(sidecar), repository)
        await bench.merged()
        await sidecar.put(sidecar.facts(LifecycleState.ROLLBACK))
        if begun:
            code, _, errors = await bench.say(verbs.begin, wish())
            assert code == 0, errors
        yield bench
