"""The suite for backends that switch can fail: each planted defect is found, and each case finds at least one."""

import asyncio
import contextlib
from itertools import count

import pytest

from sidecar.adapters.flags_memory import FlagFault, MemoryFlags
from sidecar.policy.protocols import FlagReport
from sidecar_conformance.flag_switching import FlagSwitchingSuite
from sidecar_conformance.suite import case_names, failures_of
from tests.plugins.flag_benches import MemoryBench
from tests.plugins.suites import only


class Switches(MemoryFlags):
    """Switches as it should."""

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Have the faults of reading."""
        await self.fetch()
        self.set(name, on=on)

    def edit_for(self, name: str, on: bool) -> str:
        """Leave nothing to a person."""
        return ""


class OnlyOn(Switches):
    """Never switches off."""

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Take every switch for on."""
        await super().switch(name, True, by)


class Toggles(Switches):
    """Turns a flag round, however it is."""

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Ignore what is asked."""
        await super().switch(name, not self.is_on(name), by)


class CreatesNothing(Switches):
    """Ignores names that it does not know."""

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Switch what is there."""
        if name in self._known:
            await super().switch(name, on, by)


class SwallowsTrouble(Switches):
    """Says that it has switched."""

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Hide what went wrong."""
        with contextlib.suppress(ConnectionError):
            await super().switch(name, on, by)


class Clings(Switches):
    """Does not let itself be cancelled."""

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Wait on."""
        while self._fault is FlagFault.HANG:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue
        await super().switch(name, on, by)


class LeavesItToPeople(Switches):
    """Says what a person has to do, although it switches."""

    def edit_for(self, name: str, on: bool) -> str:
        """Name the flag."""
        return f"switch {name}"


class Tells(Switches):
    """Shows its token in an error."""

    async def fetch(self) -> FlagReport:
        """Raise with it."""
        if self._fault is FlagFault.RAISE:
            raise ConnectionError("with the token hunter2")
        return await super().fetch()


class SwitchingBench(MemoryBench):
    """Flags that begin as they were set, and names that were never used."""

    secrets = ("hunter2",)

    def __init__(self, backend_type: type[MemoryFlags] = Switches) -> None:
        super().__init__(backend_type)
        self._numbers = count()

    def new_name(self) -> str:
        """Return the next."""
        return f"new-{next(self._numbers)}"


DEFECTS: dict[type[MemoryFlags], set[str]] = {
    OnlyOn: {"test_a_flag_that_is_switched_is_seen_so"},
    Toggles: {"test_to_switch_what_is_so_already_changes_nothing"},
    CreatesNothing: {"test_a_flag_that_is_not_there_is_created"},
    SwallowsTrouble: {"test_a_switch_that_was_not_made_raises"},
    Clings: {"test_a_switch_that_hangs_ends_when_cancelled"},
    LeavesItToPeople: {"test_nothing_is_left_for_a_person_to_change"},
    Tells: {"test_secrets_show_in_no_error"},
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_found(defect: type[MemoryFlags]) -> None:
    """By the cases made for it; others may see it too."""
    suite = only(FlagSwitchingSuite, DEFECTS[defect])

    assert set(failures_of(suite, lambda: SwitchingBench(defect))) == DEFECTS[defect]


def test_every_case_has_a_defect_that_it_is_there_to_find() -> None:
    """A case without one might never fail."""
    assert set().union(*DEFECTS.values()) == case_names(FlagSwitchingSuite)


def test_a_right_backend_has_no_failures() -> None:
    """Else the defects above prove nothing; one that only reads has them all."""
    assert failures_of(FlagSwitchingSuite, SwitchingBench) == {}
    assert set(failures_of(FlagSwitchingSuite, lambda: SwitchingBench(MemoryFlags))) == case_names(FlagSwitchingSuite)
