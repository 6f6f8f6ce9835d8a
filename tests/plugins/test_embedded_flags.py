"""The flag backend `embedded` passes the suite; writers switch flags, or say what a person has to change."""

import asyncio
import json
import tomllib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest

from sidecar.adapters.flags_embedded import EMBEDDED_FLAGS, EmbeddedFlags, EmbeddedFlagWriter, kept_in
from sidecar.adapters.flags_file import FILE_FLAGS, FileFlagEdits
from sidecar.adapters.flags_memory import MEMORY_FLAGS, MemoryFlags
from sidecar.adapters.rollout_memory import MemoryRollouts, RolloutsInMemory
from sidecar.composition.rollout.flag_writers import flag_writers
from sidecar.core.errors import RevisionConflict, StoreUnavailable
from sidecar.core.flag_states import FlagRoutes
from sidecar.core.identifiers import InstanceId, Slot, Vertical
from sidecar.core.rollout.facts import SlotRollout
from sidecar.operations.rollout.store.ports import RolloutWrite, StoredFlag
from sidecar.policy.factory import make_flag_backend
from sidecar.policy.problems import PluginProblem
from sidecar.policy.protocols import FlagBackend, FlagReport
from sidecar_conformance.flag_backend import FlagBackendSuite
from sidecar_conformance.flag_bench import FlagBackendBench, SourceFault
from sidecar_conformance.suite import beats
from tests.support.plugin_calls import plugin_calls
from tests.support.second_place import SettableClock

CLOCK = SettableClock()


class HangingRollouts(MemoryRollouts):
    """A store that takes a question and does not answer while it `hangs`."""

    def __init__(self, contents: RolloutsInMemory) -> None:
        """Begin without a fault."""
        super().__init__(CLOCK, contents)
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def flags(self) -> Sequence[StoredFlag]:
        """Return the flags, when it does."""
        await self.goes_on.wait()
        return await super().flags()


class EmbeddedBench(FlagBackendBench):
    """One store; flags are switched by another replica's writer."""

    def __init__(self) -> None:
        """Begin with no flag."""
        contents = RolloutsInMemory()
        self._store = HangingRollouts(contents)
        self._writer = EmbeddedFlagWriter(MemoryRollouts(CLOCK, contents, InstanceId("other")), CLOCK)
        self._other = MemoryRollouts(CLOCK, contents)

    def make(self) -> FlagBackend:
        """Make one on this source."""
        return make_flag_backend(kept_in(self._store, EMBEDDED_FLAGS), {})

    async def set_flags(self, on: frozenset[str]) -> None:
        """Write the source."""
        names = on | {flag.name for flag in await self._other.flags()}
        for name in sorted(names):
            await self._writer.switch(name, name in on, "ada")

    async def misbehave(self, fault: SourceFault) -> None:
        """Spoil or repair the source."""
        self._store.away = fault in {SourceFault.AWAY, SourceFault.GARBAGE}
        if fault is SourceFault.HANG:
            self._store.goes_on.clear()
        else:
            self._store.goes_on.set()


class TestEmbedded(FlagBackendSuite):
    """`embedded`, over a store that can be away and can hang."""

    @pytest.fixture
    def bench(self) -> EmbeddedBench:
        """Make one."""
        return EmbeddedBench()


async def test_a_rollout_that_changes_is_no_news_about_flags() -> None:
    """Every change of the store hints; only flags end the wait."""
    store = MemoryRollouts(CLOCK)
    backend = EmbeddedFlags(store)
    await backend.fetch()
    waiting = asyncio.ensure_future(backend.changed())
    slot = Slot("search")
    await store.write(RolloutWrite(slot=slot, expected_revision=0, rollout=SlotRollout(slot=slot, revision=1)))
    await beats()
    assert not waiting.done()
    await store.set_flag("a", True, 0, "ada", CLOCK.now())
    await asyncio.wait_for(waiting, 5)


def test_embedded_flags_need_a_running_sidecar() -> None:
    """Where there is no store, choosing them says so; other backends are left as they are."""
    with pytest.raises(PluginProblem):
        make_flag_backend(EMBEDDED_FLAGS, {})
    store = MemoryRollouts(CLOCK)
    assert kept_in(store, MEMORY_FLAGS) is MEMORY_FLAGS


class RacingRollouts(MemoryRollouts):
    """A store where somebody else is quicker, a few times.

    Attributes:
        quicker: how many times still.
    """

    quicker = 0

    async def set_flag(self, name: str, on: bool, expected_revision: int, by: str, at: datetime) -> StoredFlag:
        """Let another one set it first."""
        if self.quicker:
            self.quicker -= 1
            await super().set_flag(name, not on, expected_revision, "somebody", CLOCK.now())
        return await super().set_flag(name, on, expected_revision, by, CLOCK.now())


async def test_a_flag_is_created_switched_and_left_as_it_is() -> None:
    """Setting what is set changes nothing; whoever is quicker is overridden; for ever is not waited."""
    store = RacingRollouts(CLOCK)
    writer = EmbeddedFlagWriter(store, CLOCK)
    await writer.switch("a", False, "ada")
    await writer.switch("a", False, "bob")
    assert list(await store.flags()) == [StoredFlag("a", False, 1, CLOCK.now(), "ada")]
    store.quicker = 2
    await writer.switch("b", True, "bob")
    assert (await store.flags())[1] == StoredFlag("b", True, 3, CLOCK.now(), "bob")
    assert writer.edit_for("a", True) == ""
    store.quicker = 9
    with pytest.raises(StoreUnavailable, match="all the time"):
        await writer.switch("c", True, "bob")
    with pytest.raises(RevisionConflict):
        await store.set_flag("a", True, 0, "ada", CLOCK.now())


@pytest.mark.parametrize("name", ["ai_shop-2", "läden.x", 'a"b'])
async def test_a_flag_files_edit_is_what_has_to_stand_there(tmp_path: Path, name: str) -> None:
    """The text after the place is taken by the parser; names that have to be quoted are."""
    in_json = FileFlagEdits(tmp_path / "f.json").edit_for(name, True)
    place, _, text = in_json.partition(" set ")
    assert place == f'{tmp_path / "f.json"}: in "flags"'
    assert json.loads(f"{{{text}}}") == {name: True}

    in_toml = FileFlagEdits(tmp_path / "f.toml").edit_for(name, False)
    place, _, text = in_toml.partition(" set ")
    assert place == f"{tmp_path / 'f.toml'}: under [flags]"
    assert tomllib.loads(text) == {name: False}


class ForeignFlags:
    """A backend of somebody else's."""

    async def fetch(self) -> FlagReport:
        """Report that nothing is on."""
        return FlagReport(frozenset(), "1")

    async def changed(self) -> None:
        """Wait for ever."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Do nothing."""


async def test_each_verticals_flags_have_the_writer_of_their_backend(tmp_path: Path) -> None:
    """Those of a file and of a backend of somebody else's are switched by a person."""
    store = MemoryRollouts(CLOCK)
    path = str(tmp_path / "f.json")
    memory = MemoryFlags()
    backends: dict[str, FlagBackend] = {
        "embedded": EmbeddedFlags(store),
        "memory": memory,
        "file": make_flag_backend(FILE_FLAGS, {"path": path}),
        "launch": ForeignFlags(),
    }
    routes = FlagRoutes("embedded", {Vertical(name): name for name in ("memory", "file", "launch")})
    sections = {"file": {"plugin": "file", "path": path}}
    writer_of = flag_writers(backends, routes, sections, store, CLOCK, plugin_calls())

    for vertical in ("retail", "memory"):
        writer = writer_of(Vertical(vertical))
        assert writer.edit_for("a", True) == ""
        await writer.switch("a", True, "ada")
    assert [flag.name for flag in await store.flags()] == ["a"]
    assert memory.is_on("a")
    assert writer_of(Vertical("file")).edit_for("a", True) == f'{path}: in "flags" set "a": true'
    assert writer_of(Vertical("launch")).edit_for("a", False) == "launch: switch a off"
    for vertical in ("file", "launch"):
        with pytest.raises(StoreUnavailable):
            await writer_of(Vertical(vertical)).switch("a", True, "ada")
    for backend in backends.values():
        await backend.close()
