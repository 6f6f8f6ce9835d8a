"""A record that changes while it is verified: what a sidecar does meanwhile is no finding."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import date, timedelta

import pytest

from sidecar.adapters.record_memory import MemoryJournal
from sidecar.core.identifiers import TurnId
from sidecar.core.journal.appends import RootState, TurnFacts
from sidecar.core.journal.entries import Stored
from sidecar.core.journal.markers import FactsRemoved
from tests.support.record_builders import BEGIN, a_dispatch, a_whole_turn, an_end
from tests.support.requirement import requirement
from tests.support.second_place import SignedLog

Meanwhile = Callable[[SignedLog], Awaitable[None]]


class ChangingJournal(MemoryJournal):
    """Lets something happen once, before a part of it is read, or after the first fact under a root was."""

    before: str = ""
    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def roots(self) -> Sequence[RootState]:
        """Return where each running root stands."""
        await self._happen("roots")
        return await super().roots()

    async def markers(self) -> Sequence[FactsRemoved]:
        """Return every marker."""
        await self._happen("markers")
        return await super().markers()

    async def facts_of_day(self, day: date) -> AsyncIterator[Stored]:
        """Go through all facts of the turns of a day."""
        await self._happen("facts_of_day")
        async for fact in super().facts_of_day(day):
            yield fact
            if self.meanwhile is not None and self.before == "the second fact":
                await self._happen("the second fact")
                if not self.contents.turns:
                    return  # the next page of a database finds nothing

    async def facts(self, turn_id: TurnId) -> TurnFacts:
        """Return all facts of a turn."""
        await self._happen("facts")
        return await super().facts(turn_id)

    async def turn_ids(self) -> AsyncIterator[TurnId]:
        """Go through all turns."""
        await self._happen("turn_ids")
        async for turn_id in super().turn_ids():
            yield turn_id

    async def _happen(self, what: str) -> None:
        if self.before == what and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()


async def another_turn(log: SignedLog) -> None:
    """One more is appended, and signed."""
    await log.store.append(a_whole_turn("turn-9", ("shop", "rewards"), at=900))
    await log.checkpointing().look()


async def the_end_of_a_turn(log: SignedLog) -> None:
    """An open turn goes on, by another sidecar, on the next day."""
    log.go_on_as("second")
    await log.store.append(an_end([a_dispatch("open", slots=())], "open", at=86_400))


async def removal(log: SignedLog) -> None:
    """Retention removes the day."""
    await log.store.append(an_end([a_dispatch("open", slots=())], "open", at=100))
    log.clock.time = BEGIN + timedelta(days=91)
    retention = log.retention()
    await retention.remove()
    assert retention.turns == 4


@requirement("SX-38")
@pytest.mark.parametrize("before", ["roots", "markers", "facts_of_day", "the second fact", "facts", "turn_ids"])
@pytest.mark.parametrize("meanwhile", [another_turn, the_end_of_a_turn, removal])
async def test_what_a_sidecar_does_meanwhile_is_no_finding(before: str, meanwhile: Meanwhile) -> None:
    """Facts are appended, or removed, between two parts of the reading; the files were read before."""
    log = SignedLog()
    await log.turns(1, 3)
    await log.store.append([a_dispatch("open", slots=())])
    await log.checkpointing().look()
    journal = log.given = ChangingJournal(log.store.contents)
    journal.before, journal.meanwhile = before, lambda: meanwhile(SignedLog(log.store, log.place, log.clock))

    assert [each.text for each in await log.findings()] == []
    assert journal.meanwhile is None


class CountingJournal(MemoryJournal):
    """Counts how often a day is gone through."""

    read: int = 0

    async def facts_of_day(self, day: date) -> AsyncIterator[Stored]:
        """Go through all facts of the turns of a day."""
        self.read += 1
        async for fact in super().facts_of_day(day):
            yield fact


async def test_a_day_is_gone_through_once_however_many_starts_wrote_into_it() -> None:
    """Each start has a running root of its own; once for each of them made verifying quadratic in the starts."""
    log = SignedLog()
    for number in range(20):
        log.go_on_as(f"start-{number}")
        await log.store.append(a_whole_turn(f"turn-{number}", at=number))
    journal = log.given = CountingJournal(log.store.contents)

    assert [each.text for each in await log.findings()] == []
    assert (len(await journal.roots()), journal.read) == (20, 1)
