"""An exit or an interrupt that a plugin raises is its own failure: out of a task either would end the process."""

from datetime import timedelta
from typing import Any

import pytest

from sidecar.core.errors import MemoryUnavailable, StoreUnavailable
from sidecar.core.history.records import EpisodeKey
from sidecar.core.identifiers import EpisodeId, Principal
from sidecar.operations.history.memory_boundary import BoundedMemory
from sidecar.operations.rollout.flags.external_flags import FlagsOfPlugin
from tests.support.harness import KeepingRecorder

EXITS = pytest.mark.parametrize("error", [SystemExit("no licence"), KeyboardInterrupt()], ids=repr)


class Exits:
    """A plugin every method of which exits."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    async def size(self, *given: Any) -> Any:
        """Exit."""
        raise self._error

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Exit."""
        raise self._error

    def edit_for(self, name: str, on: bool) -> str:
        """Exit."""
        raise self._error


@EXITS
async def test_an_episode_memory_that_exits_is_away(error: BaseException) -> None:
    """As with any other failure of a memory."""
    plugin: Any = Exits(error)
    memory = BoundedMemory(plugin, KeepingRecorder(), timedelta(seconds=2))
    with pytest.raises(MemoryUnavailable):
        await memory.size(EpisodeKey(EpisodeId("e-1"), Principal("user-1")))


@EXITS
async def test_a_flag_backend_that_exits_while_it_switches_has_not_switched(error: BaseException) -> None:
    """A kill goes on without it; what a person has to change is said in words of our own."""
    flags = FlagsOfPlugin("mine", Exits(error))
    with pytest.raises(StoreUnavailable, match=f"`mine` did not switch the flag f .{type(error).__name__}"):
        await flags.switch("f", False, "ada")
    assert flags.edit_for("f", False) == "mine: switch f off"
