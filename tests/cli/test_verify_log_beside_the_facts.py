"""`sidecar verify-log`: second place, markers of retention and erasure, and audit of rollouts, tampered with."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from sidecar.adapters.checkpoints import read_or_make_signer
from sidecar.adapters.postgresql import ConnectionTimeouts
from sidecar.adapters.record_sqlite import SqliteJournal
from sidecar.adapters.rollout_postgresql import PostgresRollouts
from sidecar.adapters.rollout_sqlite import SqliteRollouts
from sidecar.core.identifiers import InstanceId
from sidecar.core.verifying.checkpoint_lines import Statement, line_from, line_hash, line_text, signed_line
from tests.adapters.rollouts.building import a_write, an_event
from tests.support.alterations import end_written_anew
from tests.support.requirement import requirement
from tests.support.second_place import SettableClock
from tests.support.signed_files import (
    DSN,
    KEY,
    LINES,
    PUBLIC,
    RECORD,
    change_lines,
    erase,
    opened_for_anything,
    shorten,
    signing,
    write,
    written,
)
from tests.support.tampering import SqliteTampering, Tampering
from tests.support.verified_records import findings, is_named

Change = str | Callable[[Tampering], Awaitable[None]]


@pytest.fixture
def folder(signed_folder: Path) -> Path:
    """Return a folder with the record of four turns by two sidecars, and its second place."""
    return signed_folder


def _signed_anew(folder: Path) -> None:
    """Whoever took over the machine has another key, and goes on in our file."""
    (folder / KEY).unlink()
    shutil.copy(folder / PUBLIC, folder / "kept.pub")
    (folder / PUBLIC).unlink()
    asyncio.run(write(folder, [9], "third"))
    shutil.copy(folder / "kept.pub", folder / PUBLIC)


def _lines(folder: Path, *which: int) -> None:
    lines = (folder / LINES).read_bytes().splitlines(keepends=True)
    (folder / LINES).write_bytes(b"".join(lines[each - 1] for each in which))


def _line_made_by_another(folder: Path) -> None:
    """The last line says what somebody wants, and is linked and signed by a key of theirs."""
    line = line_from((folder / LINES).read_bytes().splitlines()[-1])
    assert line is not None
    said = Statement(kind=line.kind, instance=line.instance, day=line.day, number=2, root="0" * 64, time=line.time)
    theirs = signed_line(said, line.sequence, line.previous, read_or_make_signer(folder / "their.key"))
    _lines(folder, 1, 2, 3, 4)
    with (folder / LINES).open("ab") as file:
        file.write(line_text(theirs) + b"\n")


def _signed_after_an_alteration(folder: Path) -> None:
    """The record was altered, and somebody who has the key signs what it gives now."""
    record = SqliteTampering(folder / RECORD)
    asyncio.run(end_written_anew(record, with_root=True))
    root = bytes(asyncio.run(record.scalar("SELECT root FROM roots WHERE number = 11")))
    record.close()
    last = (folder / LINES).read_bytes().splitlines()[3]
    line = line_from(last)
    assert line is not None
    said = Statement(kind=line.kind, instance=line.instance, day=line.day, number=11, root=root.hex(), time=line.time)
    again = signed_line(said, 5, line_hash(last), read_or_make_signer(folder / KEY))
    _lines(folder, 1, 2, 3, 4)
    with (folder / LINES).open("ab") as file:
        file.write(line_text(again) + b"\n")


async def _altered(folder: Path, changes: Sequence[Change]) -> None:
    """Make changes of a record; `{by}` in a statement is the column that names an instance."""
    record = await opened_for_anything(folder)
    for change in changes:
        if isinstance(change, str):
            await record.change(change.replace("{by}", record.instance_column))
        else:
            await change(record)
    await record.closed()


def _removed(*statements: Change, days: float = 91, **key: str) -> Callable[[Path], None]:
    """Return: retention removes everything; then statements, as somebody else gives them."""

    def work(folder: Path) -> None:
        assert asyncio.run(shorten(folder, days, **key)) == 4
        asyncio.run(_altered(folder, statements))

    return work


SECOND_PLACE: dict[str, tuple[Callable[[Path], None], set[str], str]] = {
    "a line changed": (
        lambda folder: change_lines(folder, b'"number":6', b'"number":5'),
        {"checkpoint_altered"},
        "line 2 of the checkpoints was altered",
    ),
    "a line taken out": (
        lambda folder: _lines(folder, 1, 3, 4, 5),
        {"checkpoint_missing"},
        "lines 2 to 2 of the checkpoints were removed",
    ),
    "two lines exchanged": (
        lambda folder: _lines(folder, 1, 3, 2, 4, 5),
        {"checkpoint_missing", "checkpoint_altered"},
        "line 2 of the checkpoints comes after line 3: lines were moved",
    ),
    "a line replaced": (
        _line_made_by_another,
        {"checkpoint_other_key"},
        "line 5 of the checkpoints is signed with key",
    ),
    "lines signed with another key": (
        _signed_anew,
        {"checkpoint_other_key"},
        "line 6 of the checkpoints is signed",
    ),
    "a line signed again after an alteration": (
        _signed_after_an_alteration,
        {"root_contradicted"},
        "line 5 of the checkpoints has another root than a line before it for the first 11 facts of instance first",
    ),
    "a marker that others signed": (
        _removed(key="theirs.key", lines="theirs.jsonl"),
        {"marker_forged", "root_cut"},
        "the retention marker of instance first for 2026-03-01 was forged or altered: it is by an unknown key",
    ),
    "a marker that is not in the second place": (
        _removed(lines="elsewhere.jsonl"),
        {"marker_misfit"},
        "the retention marker of instance first for 2026-03-01 is not in the checkpoint files",
    ),
    "a marker changed": (
        _removed("UPDATE markers SET body = replace(body, '\"number\":11', '\"number\":9') WHERE {by} = 'first'"),
        {"marker_forged", "root_cut"},
        "the retention marker of instance first for 2026-03-01 was forged or altered: its signature does not fit",
    ),
    "a marker taken out": (
        _removed("DELETE FROM markers WHERE {by} = 'second'"),
        {"root_cut"},
        "facts of instance second in turns of 2026-03-01 are missing: 0 are there, a signed checkpoint has 3",
    ),
}


@requirement("SX-38", "SX-39")
@pytest.mark.parametrize("name", SECOND_PLACE)
def test_an_alteration_of_the_second_place_or_of_a_markeris_named(folder: Path, name: str) -> None:
    """In the same way."""
    is_named(folder, *SECOND_PLACE[name])


def _erased(*statements: Change, key: str = KEY, lines: str = LINES) -> Callable[[Path], None]:
    """Return: the texts of the user are erased; then statements, as somebody else gives them."""

    def work(folder: Path) -> None:
        asyncio.run(erase(folder, key, lines))
        asyncio.run(_altered(folder, statements))

    return work


ERASURES: dict[str, tuple[Callable[[Path], None], set[str], str]] = {
    "nothing": (_erased(), set(), ""),
    "a marker that others signed": (
        _erased(key="theirs.key", lines="theirs.jsonl"),
        {"marker_forged", "texts_removed"},
        "the marker erasure-1 of an erasure in turns of 2026-03-01 was forged or altered: it is by an unknown key",
    ),
    "a marker that is not in the second place": (
        _erased(lines="elsewhere.jsonl"),
        {"marker_misfit"},
        "the marker erasure-1 of an erasure in turns of 2026-03-01 is not in the checkpoint files",
    ),
    "a marker changed": (
        _erased("UPDATE erasures SET body = replace(body, '\"facts\":14', '\"facts\":15')"),
        {"marker_forged", "texts_removed"},
        "the texts of fact 1 of turn turn-1, and of 13 more of that day, were removed",
    ),
    "a marker taken out": (
        _erased("DELETE FROM erasures"),
        {"texts_removed"},
        "were removed, and no marker of an erasure covers them",
    ),
    "another fact put under the marker": (
        _erased(lambda record: record.set_fact("turn-1", 3, erased_under=None)),
        {"texts_removed", "marker_misfit"},
        "the marker erasure-1 of an erasure in turns of 2026-03-01 covers 14 facts, and 13 are there",
    ),
    "texts put back": (
        _erased(lambda record: record.set_fact("turn-1", 3, texts=b"\0", salt=b"\0")),
        {"fact_unreadable", "marker_misfit"},
        "covers 14 facts, and 13 are there",
    ),
    "the digest of erased texts": (
        _erased(lambda record: record.set_fact("turn-1", 3, texts_digest=b"\0")),
        {"fact_altered"},
        "fact 3 of turn turn-1 (turn_ended) was altered",
    ),
}


@requirement("SX-38")
@pytest.mark.parametrize("name", ERASURES)
def test_texts_are_gone_only_where_a_signed_marker_says_so(folder: Path, name: str) -> None:
    """A record whose texts were erased verifies; what somebody else makes of it is named."""
    is_named(folder, *ERASURES[name])


AUDIT: dict[str, tuple[str, set[str], str]] = {
    "nothing": ("", set(), ""),
    "a row altered": (
        "UPDATE rollout_audit SET body = replace(body, 'ramped', 'killed') WHERE number = 2",
        {"audit_altered"},
        "row 2 of the audit of rollouts was altered",
    ),
    "a row taken out": (
        "DELETE FROM rollout_audit WHERE number = 2",
        {"audit_missing"},
        "rows 2 to 2 of the audit of rollouts are missing",
    ),
    "the end cut off": (
        "DELETE FROM rollout_audit WHERE number > 2; "
        "UPDATE rollout_version SET last_number = 2, last_link = (SELECT link FROM rollout_audit WHERE number = 2)",
        {"audit_missing"},
        "it ends at row 2, a signed checkpoint has 3",
    ),
    "all of it written anew": (
        "UPDATE rollout_audit SET link = 'x' WHERE number = 3; UPDATE rollout_version SET last_link = 'x'",
        {"audit_altered", "audit_contradicted"},
        "row 3 of the audit of rollouts: the record and a signed checkpoint differ",
    ),
}


@requirement("SX-38")
@pytest.mark.parametrize("name", AUDIT)
def test_an_alteration_of_the_audit_of_rolloutsis_named(folder: Path, name: str) -> None:
    """Three rows, the newest of which is signed."""
    statement, kinds, text = AUDIT[name]
    is_named(folder, audited(statement), kinds, text)


def audited(statement: str) -> Callable[[Path], None]:
    """Return: a sidecar writes three rows and signs the newest; then a statement, as a different process gives it."""

    async def write_and_sign(folder: Path) -> None:
        async with written(folder, [], "third") as record:
            instance, clock = InstanceId("third"), SettableClock()
            if isinstance(record.journal, SqliteJournal):
                rollouts: SqliteRollouts | PostgresRollouts = SqliteRollouts(record.journal.engine, instance, clock)
            else:
                rollouts = PostgresRollouts((folder / DSN).read_text(), instance, ConnectionTimeouts())
            for number in (1, 2, 3):
                await rollouts.write(a_write(number, events=(an_event("ramped"),)))
            await signing(record.journal, folder, rollouts).look()
            if isinstance(rollouts, PostgresRollouts):
                await rollouts.close()

    def work(folder: Path) -> None:
        asyncio.run(write_and_sign(folder))
        asyncio.run(_altered(folder, [statement] if statement else []))

    return work


def test_facts_that_are_there_beside_the_marker_of_their_removal_are_named(folder: Path) -> None:
    """Somebody puts the record of before into the place of the shortened one, with the markers of the latter."""
    before = shutil.copytree(folder, folder / "before")
    _removed()(folder)
    record = SqliteTampering(before / RECORD)
    record.connection.execute("ATTACH ? AS shortened", (str(folder / RECORD),))
    record.connection.execute("INSERT INTO markers SELECT * FROM shortened.markers")
    record.close()
    shutil.copy(before / RECORD, folder / RECORD)

    code, found = findings(folder)

    assert (code, {one["kind"] for one in found}) == (1, {"marker_misfit"})
    assert found[0]["text"].endswith("says that its facts were removed, and 11 are there")
