"""`sidecar verify-log`: second place, markers of retention and erasure, and audit of rollouts, tampered with."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.adapters.checkpoints import read_or_make_signer
from sidecar.adapters.record_sqlite import SqliteJournal
from sidecar.adapters.rollout_sqlite import SqliteRollouts
from sidecar.core.identifiers import InstanceId
from sidecar.core.verifying.checkpoint_lines import Statement, line_from, line_hash, line_text, signed_line
from tests.adapters.rollouts.building import a_write, an_event
from tests.support.alterations import end_written_anew
from tests.support.requirement import requirement
from tests.support.second_place import SettableClock
from tests.support.signed_files import KEY, LINES, PUBLIC, RECORD, change_lines, erase, shorten, signing, write, written
from tests.support.tampering import SqliteTampering
from tests.support.verified_records import findings


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


def _removed(*statements: str, days: float = 91, **key: str) -> Callable[[Path], None]:
    """Return: retention removes everything; then statements, as somebody else gives them."""

    def work(folder: Path) -> None:
        assert asyncio.run(shorten(folder, days, **key)) == 4
        record = SqliteTampering(folder / RECORD)
        for statement in statements:
            record.connection.execute(statement)
            assert record.connection.changes()
        record.close()

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
        _removed("UPDATE markers SET body = replace(body, '\"number\":11', '\"number\":9') WHERE instance = 'first'"),
        {"marker_forged", "root_cut"},
        "the retention marker of instance first for 2026-03-01 was forged or altered: its signature does not fit",
    ),
    "a marker taken out": (
        _removed("DELETE FROM markers WHERE instance = 'second'"),
        {"root_cut"},
        "facts of instance second in turns of 2026-03-01 are missing: 0 are there, a signed checkpoint has 3",
    ),
}


@requirement("SX-38", "SX-39")
@pytest.mark.parametrize("name", SECOND_PLACE)
def test_an_alteration_of_the_second_place_or_of_a_marker_is_named(folder: Path, name: str) -> None:
    """In the same way."""
    tamper, kinds, text = SECOND_PLACE[name]
    tamper(folder)

    code, found = findings(folder)

    assert code == 1
    assert any(text in one["text"] for one in found), [one["text"] for one in found]
    assert {one["kind"] for one in found} == kinds, [one["text"] for one in found]


def _erased(*statements: str, key: str = KEY, lines: str = LINES) -> Callable[[Path], None]:
    """Return: the texts of the user are erased; then statements, as somebody else gives them."""

    def work(folder: Path) -> None:
        asyncio.run(erase(folder, key, lines))
        record = SqliteTampering(folder / RECORD)
        for statement in statements:
            record.connection.execute(statement)
            assert record.connection.changes()
        record.close()

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
        _erased("UPDATE facts SET erased_under = NULL WHERE number = 3"),
        {"texts_removed", "marker_misfit"},
        "the marker erasure-1 of an erasure in turns of 2026-03-01 covers 14 facts, and 13 are there",
    ),
    "texts put back": (
        _erased("UPDATE facts SET texts = x'00', salt = x'00' WHERE number = 3"),
        {"fact_unreadable", "marker_misfit"},
        "covers 14 facts, and 13 are there",
    ),
    "the digest of erased texts": (
        _erased("UPDATE facts SET texts_digest = x'00' WHERE number = 3"),
        {"fact_altered"},
        "fact 3 of turn turn-1 (turn_ended) was altered",
    ),
}


@requirement("SX-38")
@pytest.mark.parametrize("name", ERASURES)
def test_texts_are_gone_only_where_a_signed_marker_says_so(folder: Path, name: str) -> None:
    """A record whose texts were erased verifies; what somebody else makes of it is named."""
    tamper, kinds, text = ERASURES[name]
    tamper(folder)

    code, found = findings(folder)

    assert {one["kind"] for one in found} == kinds, [one["text"] for one in found]
    assert code == bool(kinds)
    assert any(text in one["text"] for one in found) or not kinds, [one["text"] for one in found]


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
def test_an_alteration_of_the_audit_of_rollouts_is_named(folder: Path, name: str) -> None:
    """Three rows, the newest of which is signed."""

    async def audited() -> None:
        async with written(folder, [], "third") as record:
            assert isinstance(record.journal, SqliteJournal)
            rollouts = SqliteRollouts(record.journal.engine, InstanceId("third"), SettableClock())
            for number in (1, 2, 3):
                await rollouts.write(a_write(number, events=(an_event("ramped"),)))
            await signing(record.journal, folder, rollouts).look()

    asyncio.run(audited())
    statement, kinds, text = AUDIT[name]
    record = SqliteTampering(folder / RECORD)
    if statement:
        record.connection.execute(statement)
    record.close()

    code, found = findings(folder)

    assert (code, {one["kind"] for one in found}) == (bool(kinds), kinds), [one["text"] for one in found]
    assert any(text in one["text"] for one in found) or not kinds


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
