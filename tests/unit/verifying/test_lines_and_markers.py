"""What is said of checkpoint lines and of retention markers, word for word and with the place."""

import time
from collections.abc import Iterator
from datetime import date, timedelta, timezone

import msgspec
import pytest

from sidecar.core.identifiers import InstanceId
from sidecar.core.journal.appends import RootState
from sidecar.core.journal.markers import FactsRemoved, removal_of
from sidecar.core.signatures import Verification
from sidecar.core.verifying.checkpoint_lines import (
    NO_LINE,
    CheckpointClaims,
    CheckpointLine,
    LineKind,
    RootKey,
    Statement,
    checkpoint_of,
    line_from,
    line_hash,
    line_text,
    retention_of,
    signed_line,
)
from sidecar.core.verifying.findings import Finding, FindingKind
from sidecar.core.verifying.verify_lines import LinesVerifier, marker_findings, removed_findings
from tests.support.record_builders import moment

A, B = InstanceId("a"), InstanceId("b")
DAY, NEXT = date(2026, 3, 1), date(2026, 3, 2)
KEY = RootKey(A, DAY)
OTHER, FIFTH_OF_B, FIFTH_OF_NEXT = (
    RootState(A, DAY, 5, "x"),
    RootState(B, DAY, 5, "root-5"),
    RootState(A, NEXT, 5, "root-5"),
)
K = FindingKind


class PlainSigner:
    """Signs so that a test can see what was signed."""

    key_id = "k1"

    def sign(self, payload: bytes) -> str:
        """Return the payload itself, in hex."""
        return payload.hex()


class PlainJudge:
    """Knows the key `k1`."""

    def judge(self, key_id: str, payload: bytes, signature: str) -> Verification:
        """Compare."""
        if key_id != "k1":
            return Verification.UNKNOWN_KEY
        return Verification.FITS if signature == payload.hex() else Verification.DOES_NOT_FIT


def statement(number: int, kind: LineKind = LineKind.CHECKPOINT) -> Statement:
    """Return a statement about instance `a`."""
    until = moment(9) if kind is LineKind.RETENTION else None
    of = RootState(A, DAY, number, f"root-{number}")
    return Statement(kind=kind, time=moment(0), ended_before=until, **msgspec.structs.asdict(of))


def lines(*numbers: int) -> list[bytes]:
    """Return a file of checkpoint lines."""
    made: list[bytes] = []
    for number in numbers:
        previous = line_hash(made[-1][:-1]) if made else NO_LINE
        made.append(line_text(signed_line(statement(number), len(made) + 1, previous, PlainSigner())) + b"\n")
    return made


def of_line(kind: FindingKind, sequence: int, text: str) -> Finding:
    """Return a finding about a line of instance `a`."""
    return Finding(kind, f"line {sequence} of the checkpoints {text}", A, DAY, sequence=sequence)


def unreadable(row: int) -> Finding:
    """Return a finding about a row that is no line."""
    return Finding(K.CHECKPOINT_UNREADABLE, f"row {row} of the checkpoint file is no line of ours", sequence=row)


def missing(first: int, last: int, before: int) -> Finding:
    """Return a finding about lines that are not there."""
    text = f"lines {first} to {last} of the checkpoints were removed or made unreadable before line {before}"
    return Finding(K.CHECKPOINT_MISSING, text, A, DAY, sequence=before)


def edited(line: bytes, old: bytes, new: bytes) -> bytes:
    """Return the line with one part replaced."""
    assert old in line
    return line.replace(old, new, 1)


WHOLE = lines(2, 4, 6, 8)
FORGED, OTHER_KEY = (
    "was altered: its signature does not fit its contents",
    "is signed with key 'k2', which was not given",
)
REPLACED = "does not link to the line before it, which was replaced"
NOISE = b"noise\n"


@pytest.mark.parametrize(
    ("rows", "torn", "read", "findings"),
    [
        ([], 0, 0, []),
        (WHOLE, 0, 4, []),
        ([*WHOLE[:3], WHOLE[3][:-1]], 0, 4, []),
        ([*WHOLE, b"half"], 1, 4, []),
        ([*WHOLE, NOISE, b"half"], 1, 4, [unreadable(5)]),
        ([*WHOLE, NOISE], 0, 4, [unreadable(5)]),
        ([WHOLE[0], NOISE, NOISE, *WHOLE[1:]], 2, 4, []),
        ([WHOLE[0], NOISE, *WHOLE[2:]], 0, 3, [missing(2, 2, 3), unreadable(2)]),
        ([WHOLE[0], WHOLE[3]], 0, 2, [missing(2, 3, 4)]),
        (WHOLE[2:], 0, 2, [missing(1, 2, 3)]),
        (
            [WHOLE[0], WHOLE[2], WHOLE[1]],
            *(0, 3, [missing(2, 2, 3), of_line(K.CHECKPOINT_ALTERED, 2, "comes after line 3: lines were moved")]),
        ),
        ([WHOLE[0], WHOLE[0]], 0, 2, [of_line(K.CHECKPOINT_ALTERED, 1, "comes after line 1: lines were moved")]),
        ([WHOLE[0][:-1] + b" \n", WHOLE[1]], 0, 2, [of_line(K.CHECKPOINT_ALTERED, 2, REPLACED)]),
        ([lines(3)[0], WHOLE[1]], 0, 2, [of_line(K.CHECKPOINT_ALTERED, 2, REPLACED)]),
        ([lines(3)[0], NOISE, WHOLE[1]], 0, 2, [of_line(K.CHECKPOINT_ALTERED, 2, REPLACED), unreadable(2)]),
        (
            [*WHOLE[:3], edited(WHOLE[3], b'"number":8', b'"number":9')],
            *(0, 4, [of_line(K.CHECKPOINT_ALTERED, 4, FORGED)]),
        ),
        (
            [*WHOLE[:3], edited(WHOLE[3], b'"key_id":"k1"', b'"key_id":"k2"')],
            *(0, 4, [of_line(K.CHECKPOINT_OTHER_KEY, 4, OTHER_KEY)]),
        ),
    ],
)
def test_a_file_of_lines_is_found_to_be_exactly_this(
    rows: list[bytes], torn: int, read: int, findings: list[Finding]
) -> None:
    """Cut, noisy, shortened, moved, replaced, altered, signed by others."""
    verifier = LinesVerifier(CheckpointClaims(), PlainJudge())
    assert list(verifier.findings(rows)) == findings
    assert (verifier.torn, verifier.lines) == (torn, read)


def test_only_lines_that_fit_become_claims() -> None:
    """Numbers and roots by instance and day; those of retentions apart, too."""
    claims = CheckpointClaims()
    forged = edited(WHOLE[3], b'"number":8', b'"number":9')
    assert len(list(LinesVerifier(claims, PlainJudge()).findings([*WHOLE[:3], forged]))) == 1
    retention = signed_line(statement(5, LineKind.RETENTION), 1, NO_LINE, PlainSigner())
    assert list(LinesVerifier(claims, PlainJudge()).findings([line_text(retention) + b"\n"])) == []

    assert claims.of(KEY) == {2: "root-2", 4: "root-4", 6: "root-6", 5: "root-5"}
    assert claims.of(RootKey(B, DAY)) == claims.of(RootKey(A, NEXT)) == {}
    assert claims.removed == {KEY: RootState(A, DAY, 5, "root-5")}


def test_a_line_signs_every_field_but_the_signature() -> None:
    """As JSON, in order, behind a prefix of its own; a line is read back as it was written."""
    line = signed_line(statement(5, LineKind.RETENTION), 3, "p", PlainSigner())
    signed = (
        b'line\x1f[3,"p","retention","a","2026-03-01",5,"root-5",'
        b'"2026-03-01T12:00:00.123457Z","2026-03-01T12:00:09.123457Z",null,"k1"]'
    )
    assert line.signature == signed.hex()
    assert line_from(line_text(line)) == line == msgspec.json.decode(line_text(line), type=CheckpointLine)
    assert line_from(b"{}") is None
    assert NO_LINE == "0" * 64


@pytest.mark.parametrize(
    ("kind", "about"),
    [
        (LineKind.CHECKPOINT, "the first 2 facts of instance a in turns of 2026-03-01"),
        (LineKind.RESTORED, "what it states (restored 2)"),
    ],
)
def test_a_line_that_contradicts_an_earlier_one_is_named_and_does_not_count(kind: LineKind, about: str) -> None:
    """However well it is signed; the same once more says nothing new."""
    first, again = lines(2, 2)
    claims = CheckpointClaims()
    assert list(LinesVerifier(claims, PlainJudge()).findings([first, again])) == []
    other = Statement(kind=kind, instance=A, day=DAY, number=2, root="x", time=moment(0))
    contradicting = line_text(signed_line(other, 2, line_hash(first[:-1]), PlainSigner())) + b"\n"
    text = f"has another root than a line before it for {about}: the record was altered between the two"
    assert list(LinesVerifier(claims, PlainJudge()).findings([first, contradicting])) == [
        of_line(K.ROOT_CONTRADICTED, 2, text)
    ]
    assert claims.of(KEY) == {2: "root-2"}


def a_marker(number: int = 5, instance: InstanceId = A) -> FactsRemoved:
    """Return a signed marker."""
    return removal_of(RootState(instance, DAY, number, f"root-{number}"), moment(9), moment(10), PlainSigner())


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the machine be in a zone nine hours ahead."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "JST-9")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("elsewhere")
def test_a_marker_signs_every_field_but_the_signature_in_utc() -> None:
    """Whatever zone a database gives its times in, and whatever zone the machine is in."""
    signed = (
        b'removed\x1f["a","2026-03-01",5,"root-5","2026-03-01T12:00:09.123457Z","2026-03-01T12:00:10.123457Z","k1"]'
    )
    marker = a_marker()
    assert marker == FactsRemoved(A, DAY, 5, "root-5", moment(9), moment(10), "k1", signed.hex())
    east = timezone(timedelta(hours=2))
    times = {"ended_before": marker.ended_before.astimezone(east), "made_at": marker.made_at.astimezone(east)}
    assert msgspec.structs.replace(marker, **times).payload() == signed


def test_states_and_markers_become_statements() -> None:
    """Of a checkpoint, and of a retention with its bound."""
    assert checkpoint_of(RootState(A, DAY, 5, "root-5"), moment(0)) == statement(5)
    retention = msgspec.structs.replace(statement(5, LineKind.RETENTION), time=moment(10))
    assert retention_of(a_marker()) == retention


@pytest.mark.parametrize(
    ("changes", "known", "kind", "why"),
    [
        ({}, [RootState(A, DAY, 5, "root-5")], None, ""),
        (
            {"root": "x"},
            [OTHER],
            K.MARKER_FORGED,
            "was forged or altered: its signature does not fit",
        ),
        ({"key_id": "k2"}, [], K.MARKER_FORGED, "was forged or altered: it is by an unknown key"),
        ({}, [], K.MARKER_MISFIT, "is not in the checkpoint files"),
        ({}, [OTHER], K.MARKER_MISFIT, "is not in the checkpoint files"),
        ({}, [RootState(A, DAY, 4, "root-5")], K.MARKER_MISFIT, "is not in the checkpoint files"),
        (
            {},
            [FIFTH_OF_B, FIFTH_OF_NEXT],
            K.MARKER_MISFIT,
            "is not in the checkpoint files",
        ),
    ],
)
def test_a_marker_is_found_to_be_exactly_this(
    changes: dict[str, str],
    known: list[RootState],
    kind: FindingKind | None,
    why: str,
) -> None:
    """Genuine, forged, by another key, or unknown to the second place."""
    marker = msgspec.structs.replace(a_marker(), **changes)
    text = f"the retention marker of instance a for 2026-03-01 {why}"
    expected = [] if kind is None else [Finding(kind, text, A, DAY, sequence=5)]
    claims = CheckpointClaims(removed={RootKey(each.instance, each.day): each for each in known})
    assert list(marker_findings([marker], PlainJudge(), claims)) == expected


@pytest.mark.parametrize(
    ("signed", "there", "why"),
    [
        ({}, 0, []),
        ({3: "r", 5: "r"}, 0, []),
        ({6: "r", 9: "r"}, 0, ["says that 5 facts were removed, a signed checkpoint has 9"]),
        ({}, 2, ["says that its facts were removed, and 2 are there"]),
    ],
)
def test_a_marker_covers_all_that_was_signed_and_leaves_nothing(
    signed: dict[int, str], there: int, why: list[str]
) -> None:
    """A day goes as a whole."""
    expected = [
        Finding(K.MARKER_MISFIT, f"the retention marker of instance a for 2026-03-01 {each}", A, DAY, sequence=5)
        for each in why
    ]
    assert list(removed_findings(a_marker(), CheckpointClaims(roots={KEY: signed}), there)) == expected
