"""The audit sink suite can fail: each planted defect is found, and each case finds at least one."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest
from typing_extensions import override

from sidecar.policy.audit import AuditEntry
from sidecar_conformance.audit_sink import AuditSinkBench, AuditSinkSuite, SinkFault
from sidecar_conformance.suite import STALL, case_names, failures_of
from tests.plugins.suites import only

TOKEN: Final = "hunter2"
Fields = Mapping[str, Any]


class Place:
    """Where events are kept."""

    def __init__(self) -> None:
        self.kept: list[Fields] = []
        self.fault = SinkFault.NONE


class Right:
    """A sink without a defect."""

    def __init__(self, place: Place) -> None:
        self.place = place

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Keep them at the place."""
        if self.place.fault is SinkFault.HANG:
            await asyncio.Event().wait()
        if self.place.fault is not SinkFault.NONE:
            raise ConnectionError("the place does not take anything")
        self.place.kept.extend(self.made(dict(entry.fields)) for entry in entries)

    def made(self, fields: dict[str, Any]) -> Fields:
        """Return what is kept of an event."""
        return fields

    async def close(self) -> None:
        """Do nothing."""


class Flattens(Right):
    """Writes the cohort as text."""

    def made(self, fields: dict[str, Any]) -> Fields:
        """Flatten it."""
        return {**fields, "cohort": str(fields["cohort"])} if "cohort" in fields else fields


class Buffers(Right):
    """Keeps what it was given with the next batch, or at the end."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.waiting: list[AuditEntry] = []

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Hold one event back if it is the only one."""
        await super().take(self.waiting)
        self.waiting = []
        if len(entries) == 1:
            self.waiting = list(entries)
            return
        await super().take(entries)

    async def close(self) -> None:
        """Write the rest."""
        await super().take(self.waiting)


class Reverses(Right):
    """The newest first."""

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Turn a batch of three round."""
        await super().take(list(reversed(entries)) if len(entries) == 3 else entries)


class Cuts(Right):
    """Keeps the first hundred of a batch."""

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Cut it."""
        await super().take(entries[:100])


class WritesLines(Right):
    """Takes a line of a reason for all of it."""

    def made(self, fields: dict[str, Any]) -> Fields:
        """Cut the reason."""
        return {**fields, "reason": str(fields["reason"]).splitlines()[0]}


class KnowsNames(Right):
    """Keeps the fields that it knows."""

    def made(self, fields: dict[str, Any]) -> Fields:
        """Leave others out."""
        return {name: value for name, value in fields.items() if name != "more"}


class MakesIds(Right):
    """Has ids of its own."""

    made_ids = 0

    def made(self, fields: dict[str, Any]) -> Fields:
        """Number what comes again."""
        seen = {one["event_id"] for one in self.place.kept}
        again = fields["event_id"] in seen
        return {**fields, "event_id": f"{fields['event_id']}-again"} if again else fields


class Swallows(Right):
    """Takes an outage for nothing."""

    taken = SinkFault.AWAY

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Forget what it could not hand on."""
        if self.place.fault is not self.taken:
            await super().take(entries)


class TakesNoForYes(Swallows):
    """Does not read the answer."""

    taken = SinkFault.REFUSE


class NeverRecovers(Right):
    """Takes nothing more once the place was away, and does not say so."""

    broken = False

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Remember the outage."""
        if self.broken:
            return
        self.broken = self.place.fault is SinkFault.AWAY
        await super().take(entries)


class Clings(Right):
    """Takes a cancellation for nothing, once."""

    closing = False

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Go on waiting."""
        while self.place.fault is SinkFault.HANG:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if self.closing:
                    raise
                self.closing = True
        await super().take(entries)


class Blocks(Right):
    """Waits without awaiting."""

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Hold the loop up."""
        if self.place.fault is SinkFault.HANG:
            threading.Event().wait(STALL + 0.3)
        await super().take(entries)


class ClosesWhatItUsed(Right):
    """Closing needs what the first batch opened."""

    connection: str | None = None

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Open it."""
        self.connection = "open"
        await super().take(entries)

    async def close(self) -> None:
        """Fail without."""
        if self.connection is None:
            raise AttributeError("there is no connection")


class CloseWaits(Right):
    """Closing waits for the place."""

    async def close(self) -> None:
        """Wait while it hangs."""
        if self.place.fault is SinkFault.HANG:
            await asyncio.Event().wait()


class BeginsAnew(Right):
    """Empties the place first."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        place.kept.clear()


class Tells(Right):
    """Shows its token."""

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Show it in the error."""
        if self.place.fault is SinkFault.AWAY:
            raise ConnectionError(f"no contact with https://audit:{TOKEN}@example.com")
        await super().take(entries)


class Bench(AuditSinkBench):
    """A place in memory."""

    secrets = (TOKEN,)

    def __init__(self, sink: type[Right] = Right) -> None:
        self._sink = sink
        self._place = Place()

    @override
    def make(self) -> Right:
        return self._sink(self._place)

    @override
    async def kept(self) -> Sequence[Fields]:
        return self._place.kept

    @override
    async def misbehave(self, fault: SinkFault) -> None:
        self._place.fault = fault


DEFECTS: dict[type[Right], set[str]] = {
    Flattens: {"test_an_event_arrives_with_every_field"},
    Buffers: {"test_what_was_taken_is_there_at_once"},
    Reverses: {"test_events_stay_in_order"},
    Cuts: {"test_the_largest_batch_is_taken"},
    WritesLines: {"test_one_event_stays_one_event_whatever_a_person_wrote"},
    KnowsNames: {"test_fields_that_come_later_arrive_too"},
    MakesIds: {"test_what_comes_again_keeps_its_id"},
    Swallows: {"test_a_place_that_is_away_takes_nothing"},
    TakesNoForYes: {"test_a_refusal_takes_nothing"},
    NeverRecovers: {"test_the_same_object_recovers"},
    Clings: {"test_a_hung_batch_ends_when_cancelled"},
    Blocks: {"test_a_hanging_place_does_not_hold_up_the_event_loop"},
    ClosesWhatItUsed: {"test_a_sink_that_was_never_used_can_be_closed"},
    CloseWaits: {"test_close_ends_while_a_batch_hangs"},
    BeginsAnew: {"test_a_new_sink_goes_on_where_another_ended"},
    Tells: {"test_secrets_show_in_no_text"},
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_found(defect: type[Right]) -> None:
    """By the cases made for it; others may see it too."""
    suite = only(AuditSinkSuite, DEFECTS[defect], jumping=defect is not Blocks)

    assert set(failures_of(suite, lambda: Bench(defect))) == DEFECTS[defect]


def test_every_case_has_a_defect_that_it_is_there_to_find() -> None:
    """A case without one might never fail."""
    assert set().union(*DEFECTS.values()) == case_names(AuditSinkSuite)


def test_a_right_sink_has_no_failures() -> None:
    """Else the defects above prove nothing."""
    assert failures_of(only(AuditSinkSuite, case_names(AuditSinkSuite)), Bench) == {}
