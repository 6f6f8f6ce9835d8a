"""The flag backend suite can fail: each planted defect is found, and each case finds at least one."""

import asyncio
import threading
from typing import Any

import pytest

from sidecar.adapters.flags_memory import FlagFault, MemoryFlags
from sidecar.policy.protocols import FlagReport
from sidecar_conformance.flag_backend import FlagBackendSuite
from sidecar_conformance.suite import STALL, case_names, failures_of
from tests.plugins.flag_benches import MemoryBench
from tests.plugins.suites import only


class ReportsEverything(MemoryFlags):
    """Says that flags are on which are not."""

    async def fetch(self) -> FlagReport:
        """Add one."""
        report = await super().fetch()
        return FlagReport(report.on | {"extra"}, report.revision)


class WrongTypes(MemoryFlags):
    """A list instead of a frozen set."""

    async def fetch(self) -> FlagReport:
        """Turn it into a list."""
        report = await super().fetch()
        names: Any = sorted(report.on)
        return FlagReport(names, report.revision)


class NeverForgets(MemoryFlags):
    """Only ever adds flags."""

    def __init__(self, on: Any = ()) -> None:
        super().__init__(on)
        self._ever: frozenset[str] = frozenset()

    async def fetch(self) -> FlagReport:
        """Keep what was on once."""
        report = await super().fetch()
        self._ever |= report.on
        return FlagReport(self._ever, report.revision)


class EmptyIsFailure(MemoryFlags):
    """Takes "no flag on" for an outage."""

    async def fetch(self) -> FlagReport:
        """Raise if nothing is on."""
        report = await super().fetch()
        if not report.on:
            raise ValueError("no flags")
        return report


class EveryFetchIsNews(MemoryFlags):
    """Counts fetches as revisions."""

    count = 0

    async def fetch(self) -> FlagReport:
        """Count."""
        self.count += 1
        return FlagReport((await super().fetch()).on, f"{self.count}")


class OneRevision(MemoryFlags):
    """Always the same revision."""

    async def fetch(self) -> FlagReport:
        """Call it `1`."""
        return FlagReport((await super().fetch()).on, "1")


class NewestWins(MemoryFlags):
    """Never goes back to a state that it has seen."""

    def __init__(self, on: Any = ()) -> None:
        super().__init__(on)
        self._seen: list[FlagReport] = []

    async def fetch(self) -> FlagReport:
        """Give the newest state that was new."""
        report = await super().fetch()
        if report.on not in [seen.on for seen in self._seen]:
            self._seen.append(report)
        return self._seen[-1]


class ServesTheOld(MemoryFlags):
    """Gives its last report while the source is away, and an empty one at a cold start."""

    def __init__(self, on: Any = ()) -> None:
        super().__init__(on)
        self._last = FlagReport(frozenset(), "none")

    async def fetch(self) -> FlagReport:
        """Hide the failure."""
        try:
            self._last = await super().fetch()
        except ConnectionError:
            return self._last
        return self._last


class NeverRecovers(MemoryFlags):
    """One failure, and it is over."""

    broken = False

    async def fetch(self) -> FlagReport:
        """Raise for ever after the first failure."""
        if self.broken:
            raise ConnectionError("still broken")
        try:
            return await super().fetch()
        except ConnectionError:
            self.broken = True
            raise


class AlwaysHints(MemoryFlags):
    """`changed` returns at once."""

    async def changed(self) -> None:
        """Hint."""


class NeverHints(MemoryFlags):
    """`changed` never returns."""

    async def changed(self) -> None:
        """Wait."""
        await asyncio.Event().wait()


class LosesHints(MemoryFlags):
    """Only sees changes that happen while it waits."""

    async def changed(self) -> None:
        """Forget what was before."""
        self._wake.clear()
        await self._wake.wait()


class Clings(MemoryFlags):
    """A cancelled fetch goes on waiting, for as long as no case would."""

    async def fetch(self) -> FlagReport:
        """Take a cancellation for nothing."""
        while self._fault is FlagFault.HANG:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if self.closing:
                    raise
                self.closing = True
        return await super().fetch()

    closing = False


class Blocks(MemoryFlags):
    """Waits for its source without awaiting."""

    async def fetch(self) -> FlagReport:
        """Hold the loop up."""
        if self._fault is FlagFault.HANG:
            threading.Event().wait(STALL + 0.3)
        return await super().fetch()


class CloseWaits(MemoryFlags):
    """Closing waits for a fetch that never ends."""

    async def close(self) -> None:
        """Wait while the source hangs."""
        if self._fault is FlagFault.HANG:
            await asyncio.Event().wait()


class ClosesOnce(MemoryFlags):
    """The second close fails."""

    closed = False

    async def close(self) -> None:
        """Raise the second time."""
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True


class Shared(MemoryFlags):
    """All backends share one connection."""

    connection: list[str] = []  # noqa: RUF012  being shared is the defect

    def __init__(self, on: Any = ()) -> None:
        super().__init__(on)
        self.connection[:] = ["open"]

    async def fetch(self) -> FlagReport:
        """Need the shared connection."""
        if not self.connection:
            raise ConnectionError("not connected")
        return await super().fetch()

    async def close(self) -> None:
        """Close it for everybody."""
        self.connection.clear()


class Tells(MemoryFlags):
    """Shows its token."""

    def __repr__(self) -> str:
        return "Tells(token='hunter2')"


class SecretBench(MemoryBench):
    """Knows a secret."""

    secrets = ("hunter2",)


DEFECTS: dict[type[MemoryFlags], set[str]] = {
    ReportsEverything: {"test_a_fetch_reports_exactly_the_flags_that_are_on"},
    WrongTypes: {"test_a_report_has_the_contracts_types"},
    NeverForgets: {"test_a_flag_that_goes_off_leaves_the_report"},
    EmptyIsFailure: {"test_no_flag_on_is_an_answer_and_no_failure"},
    EveryFetchIsNews: {"test_the_revision_stays_while_nothing_changes"},
    OneRevision: {"test_the_revision_changes_with_the_content"},
    NewestWins: {"test_an_older_state_that_comes_back_is_seen"},
    ServesTheOld: {
        "test_a_source_that_is_away_is_no_contact",
        "test_a_start_without_source_is_no_contact",
        "test_garbage_is_no_contact",
    },
    NeverRecovers: {"test_the_same_object_recovers"},
    AlwaysHints: {"test_changed_waits_while_nothing_changes"},
    NeverHints: {"test_changed_returns_after_a_change"},
    LosesHints: {"test_a_change_between_two_waits_is_not_lost"},
    Clings: {"test_a_hung_fetch_ends_when_cancelled_and_the_next_one_works"},
    Blocks: {"test_a_hanging_source_does_not_hold_up_the_event_loop"},
    CloseWaits: {"test_close_ends_while_a_fetch_hangs"},
    ClosesOnce: {"test_close_may_be_called_twice"},
    Shared: {"test_two_backends_are_independent"},
    Tells: {"test_secrets_show_in_no_text"},
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_found(defect: type[MemoryFlags]) -> None:
    """By the cases made for it; others may see it too."""
    suite = only(FlagBackendSuite, DEFECTS[defect], jumping=defect is not Blocks)

    assert set(failures_of(suite, lambda: SecretBench(defect))) == DEFECTS[defect]


def test_every_case_has_a_defect_that_it_is_there_to_find() -> None:
    """A case without one might never fail."""
    assert set().union(*DEFECTS.values()) == case_names(FlagBackendSuite)


def test_a_right_backend_has_no_failures() -> None:
    """Else the defects above prove nothing."""
    assert failures_of(FlagBackendSuite, SecretBench) == {}


def test_a_misspelt_ability_is_refused() -> None:
    """It would silently keep, or lose, cases."""
    with pytest.raises(TypeError, match=r"no such ability \['pull'\]; there are \['hang', 'push'\]"):
        type("Mine", (FlagBackendSuite,), {"closed": frozenset({"pull"})})


def test_cases_of_a_closed_ability_are_not_there() -> None:
    """Not skipped, which would look like something that is missing."""
    suite = type("Mine", (FlagBackendSuite,), {"closed": frozenset({"push"})})

    assert case_names(FlagBackendSuite) - case_names(suite) == {
        "test_changed_returns_after_a_change",
        "test_a_change_between_two_waits_is_not_lost",
    }
