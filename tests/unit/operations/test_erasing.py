"""Erasing the content of one user: nothing of it is left, the record stays whole, and nobody else's is touched."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import pytest

from sidecar.adapters.checkpoints import CheckpointFile, read_or_make_signer, read_public_keys
from sidecar.adapters.record_sqlite import SqliteJournal
from sidecar.adapters.record_sqlite.offline import OfflineSqliteRecord
from sidecar.adapters.record_sqlite.projection import SqliteProjection
from sidecar.core.errors import AdmissionRefused, RecordConflict, StoreUnavailable
from sidecar.core.executing.records import Record
from sidecar.core.executing.stored_record import TurnQuery
from sidecar.core.identifiers import InstanceId, Principal, TurnId
from sidecar.core.journal.markers import erasure_of
from sidecar.core.verifying.findings import Finding
from sidecar.observability.metrics import Metrics
from sidecar.observability.recorder import MeasuringRecorder
from sidecar.operations.history.capture import history_on_record
from sidecar.operations.record.checkpoint_ports import CheckpointStoreUnavailable
from sidecar.operations.record.erase_user import EraseUser, ErasureReport
from sidecar.operations.record.ports import Journal
from sidecar.operations.record.projector import Projector
from sidecar.operations.record.verify_log import CheckpointSource, LogVerification
from tests.adapters.records.bench import OpenedRecord
from tests.support.record_builders import (
    BEGIN,
)
from tests.support.requirement import requirement
from tests.support.second_place import PlaceInMemory, SettableClock, a_signer
from tests.support.signed_files import KEY, LINES, PUBLIC, RECORD, CountedIds, signing
from tests.support.texts_of_users import ADA, BOB, a_turn_of, words_of


@dataclass
class Conversations:
    """Conversations in memory."""

    kept: list[Principal] = field(default_factory=lambda: [ADA, BOB, ADA])
    can: bool = True
    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def erase(self, principal: Principal) -> int | None:
        """Remove those of a user; once, let something else happen before."""
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        if not self.can:
            return None
        before = len(self.kept)
        self.kept[:] = [each for each in self.kept if each != principal]
        return before - len(self.kept)


@dataclass
class RecordOfUsers:
    """A record in a SQLite file, with its second place."""

    folder: Path
    journal: SqliteJournal
    conversations: Conversations = field(default_factory=Conversations)

    def __post_init__(self) -> None:
        """Begin with nothing in memory."""
        self.store = OpenedRecord(self.journal)
        self.signer = read_or_make_signer(self.folder / KEY)
        self.rows = SqliteProjection(self.folder / RECORD, lambda doing, error: None)
        self.projector = Projector(self.journal, self.rows, MeasuringRecorder(Metrics()))
        self.place = CheckpointFile(self.folder / LINES, self.signer, lambda *_: None)
        self.ids = CountedIds()
        self.operation = self.another_operation()

    def another_operation(self) -> EraseUser:
        """Return the operation as a sidecar of its own has it."""
        return EraseUser(
            self.journal,
            self.journal.instance,
            self.projector,
            self.conversations,
            self.signer,
            self.place,
            SettableClock(),
            self.ids,
        )

    async def write(self, *turns: Sequence[Record]) -> None:
        """Append turns, each with a checkpoint."""
        for turn in turns:
            await self.store.append(turn)
            await signing(self.journal, self.folder).look()
        await self.projector.catch_up()

    async def erase(self, principal: Principal, *, preview: bool = False) -> ErasureReport:
        """Erase; returns what was told last."""
        return [each async for each in self.operation(principal, preview=preview)][-1]

    def left(self, words: Sequence[bytes]) -> list[str]:
        """Return which words stand in which files of the record."""
        files = sorted(self.folder.glob(f"{RECORD}*"))
        return [f"{word.decode()} in {file.name}" for file in files for word in words if word in file.read_bytes()]

    async def findings(self) -> list[Finding]:
        """Verify the record as somebody beside it does."""
        lines = (self.folder / LINES).read_bytes().splitlines(keepends=True)
        place = CheckpointSource([lambda: lines], read_public_keys([self.folder / PUBLIC]))
        with OfflineSqliteRecord.opened(self.folder / RECORD) as record:
            return [each async for each in LogVerification(record, place, lambda _: None).findings()]


@asynccontextmanager
async def a_record(folder: Path) -> AsyncIterator[RecordOfUsers]:
    """Give an open record."""
    journal = await SqliteJournal.open(folder / RECORD, InstanceId("one"), lambda doing, error: None)
    try:
        record = RecordOfUsers(folder, journal)
        try:
            yield record
        finally:
            await record.rows.close()
    finally:
        await journal.close()


@requirement("SX-38")
async def test_nothing_of_a_user_is_left_in_the_files_and_the_record_is_whole(tmp_path: Path) -> None:
    """Every text is found before, in the database or its log, and none afterwards; those of others are there."""
    async with a_record(tmp_path) as record:
        for number in range(0, 40, 2):
            await record.write(
                a_turn_of(ADA, f"turn-{number}", 10_000 * number), a_turn_of(BOB, f"turn-{number + 1}", 10_000 * number)
            )
        before = {each: await record.store.turn(TurnId(each)) for each in ("turn-0", "turn-1")}
        assert [each for each in record.left([ADA.encode()]) if ".lists" in each]
        assert set(words_of(ADA)) <= {each.partition(" in ")[0].encode() for each in record.left(words_of(ADA))}

        told = await record.erase(ADA)

        assert (told.turns, told.facts, told.conversations, told.done) == (20, 60, 2, True)
        assert record.left(words_of(ADA)) == []
        assert len({each.partition(" in ")[0] for each in record.left(words_of(BOB))}) == len(words_of(BOB))
        assert await record.findings() == []
        markers = await record.journal.erasures()
        assert sum(marker.facts for marker in markers) == 60
        assert len({marker.partition for marker in markers}) == len(markers) > 1
        assert ADA not in repr(markers)
        assert ADA not in (tmp_path / LINES).read_text()
        assert record.conversations.kept == [BOB]

        assert await record.store.turn(TurnId("turn-1")) == before["turn-1"]
        assert len(await record.store.attempts(TurnId("turn-1"))) == 1
        assert await record.store.attempts(TurnId("turn-0")) == ()
        assert len((await record.store.turns(TurnQuery(limit=100))).rows) == 40


async def test_an_erased_turn_can_be_read(tmp_path: Path) -> None:
    """Ids, order, times, states and outcomes are as they were; nothing of it becomes a conversation again."""
    async with a_record(tmp_path) as record:
        await record.write(a_turn_of(ADA, "turn-1"))
        before = await record.store.turn(TurnId("turn-1"))
        await record.erase(ADA)
        after = await record.store.turn(TurnId("turn-1"))

    assert before is not None
    assert after is not None
    assert [[event.name for event in child.events] for child in after.children] == [
        [event.name for event in child.events] for child in before.children
    ]
    assert [[event.time for event in child.events] for child in after.children] == [
        [event.time for event in child.events] for child in before.children
    ]
    assert after.dispatches[0].outcomes[0].outcome == before.dispatches[0].outcomes[0].outcome
    assert (after.ended is not None, after.routing is not None) == (True, True)
    assert history_on_record(before) is not None
    assert history_on_record(after) is None


async def test_open_turns_of_the_user_keep_everything_from_being_erased(tmp_path: Path) -> None:
    """They would go on to write; they are named, and once they have ended all goes."""
    async with a_record(tmp_path) as record:
        going_on = a_turn_of(ADA, "turn-2")
        await record.write(a_turn_of(ADA, "turn-1"), a_turn_of(ADA, "turn-2", ended=False))

        told = await record.erase(ADA)

        assert (told.turns, told.open_turns, told.facts, told.done) == (1, ("turn-2",), 0, False)
        assert len(record.conversations.kept) == 3
        await record.store.append(going_on)
        assert (await record.erase(ADA)).done
        assert record.left(words_of(ADA)) == []


async def test_a_preview_changes_nothing_and_a_second_time_finds_nothing(tmp_path: Path) -> None:
    """How many turns there are."""
    async with a_record(tmp_path) as record:
        await record.write(a_turn_of(ADA, "turn-1"), a_turn_of(BOB, "turn-2"))
        told = await record.erase(ADA, preview=True)
        assert (told.turns, told.facts, told.done) == (1, 0, False)
        assert await record.journal.erasures() == []

        assert (await record.erase(ADA)).facts == 3
        again = await record.erase(ADA)
        assert (again.turns, again.facts, again.conversations, again.done) == (0, 0, 0, True)


async def test_a_user_whose_id_only_stands_in_a_text_is_another_one(tmp_path: Path) -> None:
    """A turn in which somebody writes about the user is not the user's."""
    async with a_record(tmp_path) as record:
        await record.write(a_turn_of(Principal("ada"), "turn-1"), a_turn_of(ADA, "turn-2"))
        told = await record.erase(Principal("ada"))
        assert (told.looked_at, told.turns) == (2, 1)
        assert len({each.partition(" in ")[0] for each in record.left(words_of(ADA))}) == len(words_of(ADA))


async def test_nothing_is_erased_while_the_second_place_cannot_take_the_marker(tmp_path: Path) -> None:
    """The place is away: it raises, and all is there."""
    async with a_record(tmp_path) as record:
        await record.write(a_turn_of(ADA, "turn-1"))
        away = PlaceInMemory(away=True)
        operation = EraseUser(
            record.journal,
            InstanceId("one"),
            record.projector,
            Conversations(),
            a_signer(),
            away,
            SettableClock(),
            CountedIds(),
        )
        with pytest.raises(CheckpointStoreUnavailable):
            [each async for each in operation(ADA, preview=False)]
        assert record.left([ADA.encode()])
        assert await record.journal.erasures() == []


async def test_what_was_interrupted_goes_on_with_what_is_left(tmp_path: Path) -> None:
    """The first day is erased, then the disk is full; the next time takes the other day."""
    async with a_record(tmp_path) as record:
        await record.write(a_turn_of(ADA, "turn-1"), a_turn_of(ADA, "turn-2", 100_000))
        erase, times = record.journal.erase, list[int]()

        async def once(erasure: object) -> None:
            times.append(1)
            if len(times) > 1:
                raise StoreUnavailable("the disk is full")
            await erase(erasure)  # type: ignore[arg-type]  # as it comes

        record.journal.erase = once  # type: ignore[method-assign]  # a disk that is full
        with pytest.raises(StoreUnavailable):
            await record.erase(ADA)
        record.journal.erase = erase  # type: ignore[method-assign]  # and is not any more
        told = await record.erase(ADA)
        assert (told.turns, told.facts, told.done) == (1, 3, True)
        assert record.left(words_of(ADA)) == []
        assert await record.findings() == []


async def test_only_one_user_is_erased_at_a_time(tmp_path: Path) -> None:
    """The second is told to wait."""
    async with a_record(tmp_path) as record:
        await record.write(a_turn_of(ADA, "turn-1"))
        first = record.operation(ADA, preview=False)
        await anext(first)
        with pytest.raises(AdmissionRefused):
            await record.erase(BOB)
        await first.aclose()
        assert (await record.erase(BOB)).done


async def test_a_memory_that_cannot_erase_is_told(tmp_path: Path) -> None:
    """The record is erased all the same."""
    async with a_record(tmp_path) as record:
        await record.write(a_turn_of(ADA, "turn-1"))
        record.conversations.can = False
        told = await record.erase(ADA)
        assert (told.facts, told.conversations, told.done) == (3, None, True)


async def test_an_erasure_that_does_not_fit_the_record_changes_nothing(tmp_path: Path) -> None:
    """One of its facts has no texts any more."""
    async with a_record(tmp_path) as record:
        await record.write(a_turn_of(ADA, "turn-1"), a_turn_of(ADA, "turn-2"))
        facts = {TurnId(turn): (await record.journal.facts(TurnId(turn))).facts for turn in ("turn-1", "turn-2")}

        def erasure(name: str, *turns: str) -> object:
            wanted = {TurnId(each): facts[TurnId(each)] for each in turns}
            return erasure_of(BEGIN.date(), wanted, name, BEGIN, record.signer)

        journal: Journal = record.journal
        await journal.erase(erasure("first", "turn-2"))  # type: ignore[arg-type]  # there are texts
        with pytest.raises(RecordConflict):
            await journal.erase(erasure("second", "turn-1", "turn-2"))  # type: ignore[arg-type]  # there were
        assert [marker.marker_id for marker in await journal.erasures()] == ["first"]
        assert all(fact.texts is not None for fact in (await journal.facts(TurnId("turn-1"))).facts)
        assert len(await journal.frames(TurnId("turn-1"))) == 1


@requirement("SX-38")
async def test_a_turn_that_begins_and_ends_during_an_erasure_is_erased_as_well(tmp_path: Path) -> None:
    """It comes after the record was searched; `done` means that a search found nothing."""
    async with a_record(tmp_path) as record:
        await record.write(a_turn_of(ADA, "turn-1"))
        record.conversations.meanwhile = lambda: record.write(a_turn_of(ADA, "turn-2", 50))

        told = await record.erase(ADA)

        assert (told.turns, told.facts, told.conversations, told.done) == (2, 6, 2, True)
        assert record.left(words_of(ADA)) == []
        assert await record.findings() == []


@requirement("SX-38")
async def test_a_turn_that_begins_during_an_erasure_and_stays_open_is_named(tmp_path: Path) -> None:
    """The erasure is not done; run again after the end, it takes the rest."""
    async with a_record(tmp_path) as record:
        turn = a_turn_of(ADA, "turn-2", 50)
        await record.write(a_turn_of(ADA, "turn-1"))
        record.conversations.meanwhile = lambda: record.write(a_turn_of(ADA, "turn-2", 50, ended=False))

        told = await record.erase(ADA)
        await record.store.append(turn)
        again = await record.erase(ADA)

        assert (told.facts, told.open_turns, told.done) == (3, ("turn-2",), False)
        assert (again.facts, again.done) == (4, True)


async def test_a_user_who_begins_a_turn_in_each_look_is_not_told_to_be_gone(tmp_path: Path) -> None:
    """The looks are limited; the message says what to do."""
    async with a_record(tmp_path) as record:
        numbers = iter(range(1, 100))
        await record.write(a_turn_of(ADA, "turn-0"))

        async def once_more() -> None:
            number = next(numbers)
            await record.write(a_turn_of(ADA, f"turn-{number}", 50 * number))
            record.conversations.meanwhile = once_more

        record.conversations.meanwhile = once_more
        with pytest.raises(RecordConflict, match="keep the user out or wait"):
            await record.erase(ADA)


@requirement("SX-38")
async def test_two_sidecars_that_erase_one_user_both_end_well(tmp_path: Path) -> None:
    """The second finds texts gone that it has just read; it reads again what is left."""
    async with a_record(tmp_path) as record:
        await record.write(a_turn_of(ADA, "turn-1"), a_turn_of(ADA, "turn-2", 100_000))
        erase, other = record.journal.erase, record.another_operation()

        async def after_the_other(erasure: object) -> None:
            record.journal.erase = erase  # type: ignore[method-assign]  # this one time
            assert [each async for each in other(ADA, preview=False)][-1].done
            await erase(erasure)  # type: ignore[arg-type]  # as it comes

        record.journal.erase = after_the_other  # type: ignore[method-assign]  # the other one comes in between

        told = await record.erase(ADA)

        assert (told.facts, told.done) == (0, True)
        assert record.left(words_of(ADA)) == []
        assert await record.findings() == []


async def test_a_turn_that_cannot_be_read_is_named_and_nothing_is_erased(tmp_path: Path) -> None:
    """Its texts hold the user's id, and are of a version that this sidecar does not know."""
    async with a_record(tmp_path) as record:
        await record.write(a_turn_of(ADA, "turn-1"), a_turn_of(ADA, "turn-2"))
        await record.journal.engine.write(lambda connection: _of_a_newer_version(connection, "turn-2"))
        with pytest.raises(RecordConflict, match=r"turn turn-2 .* cannot be read .* `sidecar verify-log`"):
            await record.erase(ADA)
        assert await record.journal.erasures() == []


def _of_a_newer_version(connection: apsw.Connection, turn_id: str) -> None:
    connection.execute("DROP TRIGGER facts_stay")
    newer = "UPDATE facts SET texts = CAST(x'9263' || substr(texts, 3) AS BLOB)"
    connection.execute(f"{newer} WHERE turn = (SELECT number FROM turns WHERE turn_id = ?)", (turn_id,))
