import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.adapters.definitions_directory.source import LOOK_EVERY_SECONDS, DefinitionsChange, DefinitionsSource
from sidecar.core.definitions.cards.card import Card
from sidecar.core.identifiers import DefinitionId
from tests.corpus.bad_configs.good import BLOCKS, CONFIG, block, edited, write

SHOP_BLOCK = f"{BLOCKS}/shop/persona-shop.yaml"
NEW_TEXT = block("persona-shop", "shop") + "  And more.\n"


class Watched:
    """A source over a good configuration, and what it told."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.changes: list[DefinitionsChange] = []
        self.source = DefinitionsSource(root, self.changes.append)

    def shop(self) -> Card:
        """Return the shop's card in force."""
        catalogue = self.source.current()
        assert catalogue is not None
        return catalogue.cards[DefinitionId("shop")]

    async def two_looks(self) -> None:
        """Look as often as a change needs to be taken."""
        await self.source.refresh()
        await self.source.refresh()


async def watched(root: Path) -> Watched:
    """Return a source that has looked once."""
    one = Watched(root)
    await one.source.refresh()
    return one


def in_place(path: Path) -> None:
    """Write over the file."""
    path.write_text(NEW_TEXT)


def by_rename(path: Path) -> None:
    """Write beside and rename over."""
    beside = path.with_suffix(".new")
    beside.write_text(NEW_TEXT)
    beside.rename(path)


def with_an_older_time(path: Path) -> None:
    """Write over the file and set its time to long ago."""
    path.write_text(NEW_TEXT)
    os.utime(path, (1, 1))


def with_the_same_time_and_size(path: Path) -> None:
    """Change one letter and put the times back."""
    before = path.stat()
    path.write_text(block("persona-shop", "shop").replace("Text", "Test"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("change", [in_place, by_rename, with_an_older_time, with_the_same_time_and_size])
async def test_a_changed_content_is_in_force_after_two_looks(change: Callable[[Path], None], tmp_path: Path) -> None:
    """However the file was changed; two looks and a load fit into the two seconds allowed."""
    one = await watched(write(tmp_path))
    before, revision = one.shop(), one.source.revision

    change(tmp_path / SHOP_BLOCK)
    await one.two_looks()

    assert one.shop().digest != before.digest
    assert one.source.revision != revision
    assert [told.in_force for told in one.changes] == [True, True]
    assert 2 * LOOK_EVERY_SECONDS <= 1


async def test_a_swapped_link_changes_the_whole_state_at_once(tmp_path: Path) -> None:
    """As Kubernetes does it: `..data` is renamed over from the old folder to the new one."""
    write(tmp_path / "..old")
    write(tmp_path / "..new", {SHOP_BLOCK: NEW_TEXT})
    (tmp_path / "..data").symlink_to("..old")
    (tmp_path / CONFIG).symlink_to(f"..data/{CONFIG}")
    (tmp_path / "prompts").symlink_to("..data/prompts")
    one = await watched(tmp_path)
    before = one.shop()

    (tmp_path / "..tmp").symlink_to("..new")
    (tmp_path / "..tmp").rename(tmp_path / "..data")
    await one.two_looks()

    assert one.shop().digest != before.digest
    assert one.source.problems() == ()


async def test_an_invalid_state_keeps_the_last_good_one_and_is_told_once(tmp_path: Path) -> None:
    """Broken, looked at four times, then mended."""
    one = await watched(write(tmp_path))
    good, revision = one.source.current(), one.source.revision

    (tmp_path / CONFIG).write_text(edited(("role: native", "role: natve")))
    await one.two_looks()
    await one.two_looks()
    broken = one.changes[1:]

    assert one.source.current() is good
    assert [problem.field for problem in one.source.problems()] == ["agents.shop.role"]
    assert [(told.in_force, told.revision) for told in broken] == [(False, revision)]

    write(tmp_path)
    await one.two_looks()

    assert one.source.problems() == ()
    assert [told.in_force for told in one.changes] == [True, False, True]


async def test_a_start_with_an_invalid_state_has_no_catalogue_until_it_is_mended(tmp_path: Path) -> None:
    """Nothing to fall back on: the problems say why."""
    write(tmp_path, {CONFIG: "agents: []\nagent: x\n"})
    one = await watched(tmp_path)

    assert one.source.current() is None
    assert one.source.revision is None
    assert len(one.source.problems()) > 0

    write(tmp_path)
    await one.two_looks()

    assert one.source.current() is not None


async def test_a_half_written_file_is_not_taken(tmp_path: Path) -> None:
    """A valid beginning at one look, the whole at the next: only the whole is ever in force."""
    one = await watched(write(tmp_path))
    before = one.shop()
    (tmp_path / SHOP_BLOCK).write_text(NEW_TEXT[:-6])
    await one.source.refresh()
    halfway = one.shop()

    (tmp_path / SHOP_BLOCK).write_text(NEW_TEXT)
    await one.two_looks()

    assert halfway == before
    assert one.shop().blocks[-1].instructions == "Text of persona-shop. And more."
    assert len(one.changes) == 2


async def test_a_change_that_is_taken_back_between_two_looks_is_none(tmp_path: Path) -> None:
    """There and back again, then the same change once more needs two looks of its own."""
    one = await watched(write(tmp_path))
    (tmp_path / SHOP_BLOCK).write_text(NEW_TEXT)
    await one.source.refresh()
    write(tmp_path)
    await one.source.refresh()
    (tmp_path / SHOP_BLOCK).write_text(NEW_TEXT)
    await one.source.refresh()

    assert len(one.changes) == 1


async def test_cards_of_earlier_states_are_kept_for_turns_that_were_bound_to_them(tmp_path: Path) -> None:
    """By digest, also after the definition itself is gone."""
    one = await watched(write(tmp_path))
    before = one.shop()
    (tmp_path / SHOP_BLOCK).write_text(NEW_TEXT)
    await one.two_looks()

    assert one.source.card_by_digest(before.digest) == before
    assert one.source.card_by_digest(one.shop().digest) == one.shop()


async def test_the_loop_looks_after_each_pause_until_it_is_cancelled(tmp_path: Path) -> None:
    """The pause is ours: three of them, a change before the first, in force after the second look."""
    write(tmp_path)
    in_force = asyncio.Event()
    pauses = asyncio.Semaphore(0)

    def told(change: DefinitionsChange) -> None:
        if len(seen) == 1:
            in_force.set()
        seen.append(change)

    async def pause() -> None:
        await pauses.acquire()

    seen: list[DefinitionsChange] = []
    source = DefinitionsSource(tmp_path, told, pause=pause)
    await source.refresh()
    (tmp_path / SHOP_BLOCK).write_text(NEW_TEXT)
    loop = asyncio.ensure_future(source.run())
    pauses.release()
    pauses.release()

    await in_force.wait()
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)

    assert [change.in_force for change in seen] == [True, True]
    assert loop.cancelled()
