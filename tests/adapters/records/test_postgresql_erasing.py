"""Erasing the content of a user from a journal in PostgreSQL that several sidecars append to, on a real server."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from sidecar.adapters.checkpoints import CheckpointFile, read_or_make_signer, read_public_keys
from sidecar.adapters.memory_postgresql import PostgresMemory
from sidecar.core.errors import RecordConflict
from sidecar.core.executing.stored_record import TurnQuery
from sidecar.core.identifiers import Principal, TurnId
from sidecar.core.journal.markers import Erasure, erasure_of
from sidecar.core.verifying.findings import Finding
from sidecar.operations.history.capture import history_on_record
from sidecar.operations.record.erase_user import EraseUser, ErasureReport
from sidecar.operations.record.verify_log import CheckpointSource, LogVerification
from tests.adapters.records.bench import OpenedRecord
from tests.adapters.records.postgresql_bench import connection_to, two_instances
from tests.support.record_builders import BEGIN
from tests.support.requirement import requirement
from tests.support.second_place import SettableClock
from tests.support.signed_files import KEY, LINES, PUBLIC, CountedIds, signing
from tests.support.texts_of_users import ADA, BOB, a_turn_of, words_of

TABLES: Final = "select quote_ident(tablename) from pg_tables where schemaname = 'public' order by tablename"
FACTS: Final = 3
"""Of each turn."""


class Sidecars:
    """Two sidecars on one database, with one second place and one episode memory."""

    def __init__(self, dsn: str, folder: Path, records: Sequence[OpenedRecord], memory: PostgresMemory) -> None:
        """Make the operation of each."""
        self._dsn, self._folder = dsn, folder
        self.first, self.second = records
        self._memory = memory
        self._ids = CountedIds()

    async def write(self, record: OpenedRecord, *turns: tuple[Principal, str, float]) -> None:
        """Append turns of users through a sidecar, each with a checkpoint; project them."""
        for turn in turns:
            await record.append(a_turn_of(*turn))
            await signing(record.journal, self._folder).look()
        await record.projector.catch_up()

    async def remember(self, turn: str) -> None:
        """Keep the conversation of a turn."""
        found = await self.first.turn(TurnId(turn))
        conversation = None if found is None else history_on_record(found)
        assert conversation is not None
        await self._memory.append(conversation)

    def eraser(self, record: OpenedRecord) -> EraseUser:
        """Return the operation of a sidecar."""
        signer, ids = read_or_make_signer(self._folder / KEY), self._ids
        place = CheckpointFile(self._folder / LINES, signer, lambda *_: None)
        journal, instance = record.journal, record.instance
        return EraseUser(journal, instance, record.projector, self._memory, signer, place, SettableClock(), ids)

    async def erase(self, record: OpenedRecord, principal: Principal = ADA) -> ErasureReport:
        """Erase through a sidecar; returns what it told last."""
        return [told async for told in self.eraser(record)(principal, preview=False)][-1]

    async def left(self, words: Sequence[bytes]) -> set[tuple[str, str]]:
        """Return which words are in which tables, partitions and lists included; bytes are shown in hex."""
        found: set[tuple[str, str]] = set()
        async with connection_to(self._dsn) as connection:
            for (table,) in await connection.fetch(TABLES):
                rows = [row[0] for row in await connection.fetch(f"select each::text from {table} each")]
                found |= {(word.decode(), table) for word in words for row in rows if _says(row, word)}
        return found

    async def findings(self) -> list[Finding]:
        """Verify the record through the second sidecar."""
        lines = (self._folder / LINES).read_bytes().splitlines(keepends=True)
        place = CheckpointSource([lambda: lines], read_public_keys([self._folder / PUBLIC]))
        return [each async for each in LogVerification(self.second.journal, place, lambda _: None).findings()]


def _says(row: str, word: bytes) -> bool:
    return word.decode() in row or word.hex() in row


@asynccontextmanager
async def sidecars(dsn: str, folder: Path) -> AsyncIterator[Sidecars]:
    """Give two sidecars."""
    memory = PostgresMemory(dsn)
    await memory.open()
    try:
        async with two_instances(dsn) as records:
            yield Sidecars(dsn, folder, records, memory)
    finally:
        await memory.close()


@requirement("SX-38")
async def test_nothing_of_a_user_is_left_in_any_table_and_the_record_is_whole(dsn: str, tmp_path: Path) -> None:
    """Turns of two days by two sidecars, their frames, lists and conversations; the other user's texts stay."""
    async with sidecars(dsn, tmp_path) as both:
        await both.write(both.first, (ADA, "a", 0), (BOB, "b", 10), (ADA, "c", 100_000))
        await both.write(both.second, (ADA, "d", 20))
        await both.remember("a")
        before = await both.left(words_of(ADA))
        assert {word.encode() for word, _ in before} == set(words_of(ADA))
        assert len({table for _, table in before}) >= 6, before

        told = await both.erase(both.first)

        assert (told.turns, told.facts, told.conversations, told.done) == (3, 3 * FACTS, 1, True)
        assert await both.left(words_of(ADA)) == set()
        assert {word.encode() for word, _ in await both.left(words_of(BOB))} == set(words_of(BOB))
        assert await both.findings() == []
        markers = await both.second.journal.erasures()
        assert sorted(marker.facts for marker in markers) == [FACTS, 2 * FACTS]


@requirement("SX-38")
async def test_the_other_sidecar_reads_and_lists_erased_turns(dsn: str, tmp_path: Path) -> None:
    """It had them in its lists, and one of them open in memory; ids, order and states are there without texts."""
    async with sidecars(dsn, tmp_path) as both:
        await both.write(both.second, (ADA, "a", 0), (BOB, "b", 10))
        assert {row.principal for row in (await both.second.turns(TurnQuery())).rows} == {ADA, BOB}

        assert (await both.erase(both.first)).done

        assert [(row.turn_id, row.principal) for row in (await both.second.turns(TurnQuery())).rows] == [
            ("b", BOB),
            ("a", ""),
        ]
        turn = await both.second.turn(TurnId("a"))
        assert turn is not None
        assert (turn.ended is not None, ADA in repr(turn)) == (True, False)
        assert await both.second.attempts(TurnId("a")) == ()


@requirement("SX-38")
async def test_two_sidecars_erase_one_user_at_once(dsn: str, tmp_path: Path) -> None:
    """The second has signed its marker when the first takes the texts; it reads again, and both end well."""
    async with sidecars(dsn, tmp_path) as both:
        await both.write(both.first, (ADA, "a", 0), (ADA, "b", 100_000))
        journal, refused = both.second.journal, list[str]()
        erase = journal.erase

        async def after_the_other(erasure: Erasure) -> None:
            if not refused:
                assert (await both.erase(both.first)).facts == 2 * FACTS
            try:
                await erase(erasure)
            except RecordConflict as why:
                refused.append(str(why))
                raise

        journal.erase = after_the_other  # type: ignore[method-assign]  # the other one comes in between
        told = await both.erase(both.second)

        assert refused == ["PostgreSQL refuses: a fact that is to be erased is not there, or has no texts"]
        assert (told.facts, told.done) == (0, True)
        assert await both.left(words_of(ADA)) == set()
        assert await both.findings() == []


async def test_an_erasure_that_does_not_fit_changes_nothing(dsn: str, tmp_path: Path) -> None:
    """One of its facts has no texts any more: texts and frames of the other turn stay, and no marker is kept."""
    async with sidecars(dsn, tmp_path) as both:
        await both.write(both.first, (ADA, "a", 0), (ADA, "b", 10))
        journal, signer = both.first.journal, read_or_make_signer(tmp_path / KEY)
        facts = {TurnId(turn): (await journal.facts(TurnId(turn))).facts for turn in ("a", "b")}

        def erasure(name: str, *turns: str) -> Erasure:
            made = erasure_of(BEGIN.date(), {TurnId(each): facts[TurnId(each)] for each in turns}, name, BEGIN, signer)
            assert made is not None
            return made

        await journal.erase(erasure("first", "b"))
        with pytest.raises(RecordConflict, match="is not there, or has no texts"):
            await both.second.journal.erase(erasure("second", "a", "b"))
        assert [marker.marker_id for marker in await journal.erasures()] == ["first"]
        assert all(fact.texts is not None for fact in (await journal.facts(TurnId("a"))).facts)
        assert len(await journal.frames(TurnId("a"))) == 1
