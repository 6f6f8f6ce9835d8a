"""What this project has written itself, and reads back after damage: lines, facts, frames, documents."""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sidecar.adapters.checkpoints import Ed25519Signer
from sidecar.adapters.tombstones.lines import TombstoneEntry, line_of, read_lines, recorded_line
from sidecar.core.history.legacy_records import read_record
from sidecar.core.identifiers import Digest, InstanceId, TurnId
from sidecar.core.journal.attempt_frames import packed, unpacked
from sidecar.core.journal.encoding import UnreadableFact, draft_of, fact_of
from sidecar.core.journal.entries import Stored
from sidecar.core.journal.turn_state import TurnState
from sidecar.core.replaying.document import CannotReplay, document_from_json, recorded_of
from sidecar.core.replaying.frames import (
    FinishedFrame,
    Narration,
    RecordedAttempt,
    Status,
    attempt_from_json,
    attempt_to_json,
)
from sidecar.core.verifying.checkpoint_lines import NO_LINE, LineKind, Statement, line_from, line_text, signed_line
from sidecar.operations.rollout.store.ports import StopKey, StopKind
from tests.fuzz.target import Target, as_text, holds

NOW: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
JSON_WORDS: Final = (b"null", b"[[", b'{"', b'"\\ud800"', b"9" * 40, b"0001-01-01T00:00:00Z", b"\xff", b"\n", b"\r\n")
GOLDEN: Final = Path(__file__).parent.parent / "corpus" / "journal" / "version-1.txt"
DIGEST: Final = Digest("sha256:" + "a" * 64)


def _checkpoint_line(data: bytes) -> None:
    """A line or none; a line that is written again is the same line."""
    line = line_from(data)
    if line is not None:
        again = line_from(line_text(line))
        holds(again == line, "a line that does not survive a round")
        line.signed_bytes()


@cache
def _line() -> bytes:
    statement = Statement(
        kind=LineKind.CHECKPOINT, instance=InstanceId("one"), day=date(2026, 1, 1), number=7, root="ab" * 32, time=NOW
    )
    signer = Ed25519Signer(Ed25519PrivateKey.from_private_bytes(b"c" * 32))
    return line_text(signed_line(statement, 1, NO_LINE, signer))


def _tombstone_lines(data: bytes) -> None:
    """Every whole line is read or kept as damaged, which holds what a damaged kill names; reading again agrees."""
    found = read_lines(data)
    holds(found.length <= len(data) + 1, "more lines than bytes")
    for number, raw in found.damaged.items():
        holds(data.split(b"\n")[number - 1] == raw, "a damaged line was changed")
        named = DIGEST.encode() in raw and not raw.partition(DIGEST.encode())[2][:1].isalnum()
        holds(not named or StopKind.RAMP_DOWN.encode() in raw or DIGEST in found.held, "a damaged kill holds nothing")
    again = read_lines(data[: found.length])
    holds((again.stops, again.recorded, again.held) == (found.stops, found.recorded, found.held), "another reading")


def _journal_facts(data: bytes) -> None:
    """Bodies and texts, each pair a fact: unreadable, or encoded to what is read the same; so is their turn."""
    facts = []
    for part in data.split(b"|||"):
        body, _, texts = part.partition(b"||")
        stored = Stored(TurnId("t"), InstanceId("one"), NOW, body, texts, b"s" * 16, None, b"l" * 20)
        try:
            draft = draft_of(stored)
        except UnreadableFact:
            continue
        again = draft_of(fact_of(draft, ()).stored)
        holds(msgspec.msgpack.encode(again.body) == msgspec.msgpack.encode(draft.body), "a fact that does not survive")
        facts.append(stored)
    try:
        TurnState(TurnId("t")).read(facts)
    except UnreadableFact:
        return


def _attempt_frames(data: bytes) -> None:
    """Frames as a database keeps them, and as JSON: an attempt or the documented exception."""
    reads: list[Callable[[], RecordedAttempt]] = [
        lambda: unpacked(data, "told"),
        lambda: attempt_from_json(as_text(data)),
    ]
    for read in reads:
        try:
            attempt = read()
        except (ValueError, UnreadableFact):
            continue
        try:
            text = attempt_to_json(attempt)
        except UnicodeEncodeError:  # half a surrogate pair, which MessagePack lets through: kept, and exported without
            continue
        holds(attempt_from_json(text) == attempt, "frames that do not survive a round")


@cache
def _attempt() -> RecordedAttempt:
    frames = (Status(1, "searching", {"a": "b"}), Narration(2, "told"), FinishedFrame(3, data_unavailable=False))
    return RecordedAttempt(began=5, frames=frames)


def _replay_document(data: bytes) -> None:
    """A document, and what it says of its turn; or one exception."""
    try:
        document = document_from_json(data)
        document.claims()
        recorded_of(document)
    except CannotReplay:
        return


def _legacy_record(data: bytes) -> None:
    """A record or a finding, never an exception."""
    read_record(data, 1)


def _journal_seeds() -> Iterator[bytes]:
    rows = [line.split() for line in GOLDEN.read_text("ascii").splitlines()]
    pairs = [bytes.fromhex(body) + b"||" + bytes.fromhex(texts) for body, texts, _ in rows]
    yield from pairs
    yield b"|||".join(pairs)


def targets() -> Iterator[Target]:
    """Yield the targets."""
    yield Target("checkpoint_line", _checkpoint_line, [_line()], (*JSON_WORDS, b'"kind":"audit"', b"-1", b'"marker"'))
    recorded = recorded_line(StopKey(StopKind.KILL, DIGEST, ""))
    lines = [
        recorded,
        line_of(TombstoneEntry(recorded=(StopKind.RAMP_DOWN, DIGEST), of="r")),
        recorded * 2 + recorded[:-9],
    ]
    words = (*JSON_WORDS, DIGEST.encode(), b"ramp_down", b"kill", b'{"stop":', b'{"recorded":')
    yield Target("tombstone_lines", _tombstone_lines, lines, words)
    packs = (
        b"|||",
        b"||",
        b"\x91",
        b"\x92",
        b"\xc0",
        b"\xc3",
        b"\xcf" + b"\xff" * 8,
        b"\xdb\xff\xff\xff\xff",
        b"\xd6\xff",
    )
    yield Target("journal_facts", _journal_facts, list(_journal_seeds()), packs)
    attempt = attempt_to_json(_attempt()).encode()
    yield Target(
        "attempt_frames", _attempt_frames, [packed(_attempt(), "told"), attempt], (*JSON_WORDS, *packs, b'["status",')
    )
    document = b'{"turn_id":"t","dispatches":[],"children":[],"attempts":[],"told":{},"version":1}'
    yield Target(
        "replay_document", _replay_document, [document], (*JSON_WORDS, b'"claims_json":"{}"', b'"told":{"d":[]}')
    )
    record = (
        b'{"turn_id":"t","episode_id":"e","user_id":"u","role":"assistant","content":"x","at":"2026-01-01T00:00:00Z"}'
    )
    yield Target("legacy_record", _legacy_record, [record], (*JSON_WORDS, b'"role":"tool"', b'"content":null'))
