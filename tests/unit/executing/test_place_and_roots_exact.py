"""What the verifier says of running roots, checkpoint lines and retention markers, word for word and with the place."""

import time
from collections.abc import Iterator
from datetime import timedelta, timezone

import msgspec
import pytest

from sidecar.core.executing.chain import NOTHING, closed_root
from sidecar.core.signatures import Judgement
from sidecar.core.verifying.lines import (
    NO_LINE,
    CheckpointLine,
    Claims,
    LineKind,
    Statement,
    checkpoint_of,
    line_from,
    line_hash,
    line_text,
    marker_bytes,
    retention_of,
    signed_line,
    signed_marker,
)
from sidecar.core.verifying.findings import Finding, FindingKind
from sidecar.core.executing.stored_record import ClosedChild, ClosedState, RetentionMarker, StoredChild
from sidecar.core.verifying.verify_lines import LinesVerifier, marker_findings
from sidecar.core.verifying.verify_roots import ClosedChildren, RootWalk, newest_markers
from sidecar.core.identifiers import ChildId, InstanceId
from tests.support.record_builders import a_child, a_dispatch, a_life, moment

A, B = InstanceId("a"), InstanceId("b")
K = FindingKind


class PlainSigner:
    """Signs so that a test can see what was signed."""

    key_id = "k1"

    def sign(self, payload: bytes) -> str:
        """Return the payload itself, in hex."""
        return payload.hex()


class PlainJudge:
    """Knows the key `k1`."""

    def judge(self, key_id: str, payload: bytes, signature: str) -> Judgement:
        """Compare."""
        if key_id != "k1":
            return Judgement.UNKNOWN_KEY
        return Judgement.FITS if signature == payload.hex() else Judgement.DOES_NOT_FIT


def statement(number: int, kind: LineKind = LineKind.CHECKPOINT) -> Statement:
    """Return a statement about instance `a`."""
    until = moment(9) if kind is LineKind.RETENTION else None
    return Statement(kind=kind, instance=A, number=number, root=f"root-{number}", time=moment(0), closed_before=until)


def lines(*numbers: int) -> list[bytes]:
    """Return a file of checkpoint lines."""
    made: list[bytes] = []
    for number in numbers:
        previous = line_hash(made[-1][:-1]) if made else NO_LINE
        made.append(line_text(signed_line(statement(number), len(made) + 1, previous, PlainSigner())) + b"\n")
    return made


def of_line(kind: FindingKind, sequence: int, text: str) -> Finding:
    """Return a finding about a line of instance `a`."""
    return Finding(kind, f"line {sequence} of the checkpoints {text}", instance=A, sequence=sequence)


def unreadable(row: int) -> Finding:
    """Return a finding about a row that is no line."""
    return Finding(K.CHECKPOINT_UNREADABLE, f"row {row} of the checkpoint file is no line of ours", sequence=row)


def missing(first: int, last: int, before: int) -> Finding:
    """Return a finding about lines that are not there."""
    text = f"lines {first} to {last} of the checkpoints were removed or made unreadable before line {before}"
    return Finding(K.CHECKPOINT_MISSING, text, instance=A, sequence=before)


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
    verifier = LinesVerifier(Claims(), PlainJudge())
    assert list(verifier.findings(rows)) == findings
    assert (verifier.torn, verifier.lines) == (torn, read)


def test_only_lines_that_fit_become_claims() -> None:
    """Numbers and roots by instance; those of retentions apart, too."""
    claims = Claims()
    forged = edited(WHOLE[3], b'"number":8', b'"number":9')
    assert len(list(LinesVerifier(claims, PlainJudge()).findings([*WHOLE[:3], forged]))) == 1
    retention = signed_line(statement(5, LineKind.RETENTION), 1, NO_LINE, PlainSigner())
    assert list(LinesVerifier(claims, PlainJudge()).findings([line_text(retention) + b"\n"])) == []

    assert claims.of(A) == {2: "root-2", 4: "root-4", 6: "root-6", 5: "root-5"}
    assert claims.of(B) == {}
    assert claims.retained == {(A, 5): "root-5"}


def test_a_line_signs_every_field_but_the_signature() -> None:
    """As JSON, in order, behind a prefix of its own; a line is read back as it was written."""
    line = signed_line(statement(5, LineKind.RETENTION), 3, "p", PlainSigner())
    signed = (
        b'line\x1f[3,"p","retention","a",5,"root-5","2026-03-01T12:00:00.123457Z","2026-03-01T12:00:09.123457Z","k1"]'
    )
    assert line.signature == signed.hex()
    assert line_from(line_text(line)) == line == msgspec.json.decode(line_text(line), type=CheckpointLine)
    assert line_from(b"{}") is None
    assert NO_LINE == "0" * 64


def a_marker(number: int = 5, instance: InstanceId = A) -> RetentionMarker:
    """Return a signed marker."""
    return signed_marker(ClosedState(instance, number, f"root-{number}"), moment(9), moment(10), PlainSigner())


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
    signed = b'marker\x1f["a",5,"root-5","2026-03-01T12:00:09.123457Z","2026-03-01T12:00:10.123457Z","k1"]'
    marker = a_marker()
    assert marker == RetentionMarker(A, 5, "root-5", moment(9), moment(10), "k1", signed.hex())
    east = timezone(timedelta(hours=2))
    times = {"closed_before": marker.closed_before.astimezone(east), "made_at": marker.made_at.astimezone(east)}
    assert marker_bytes(msgspec.structs.replace(marker, **times)) == signed


def test_states_and_markers_become_statements() -> None:
    """Of a checkpoint, and of a retention with its bound."""
    checkpoint = checkpoint_of(ClosedState(A, 5, "root-5"), moment(0))
    assert checkpoint == statement(5)
    retention = msgspec.structs.replace(statement(5, LineKind.RETENTION), time=moment(10))
    assert retention_of(a_marker()) == retention


@pytest.mark.parametrize(
    ("changes", "known", "kind", "why"),
    [
        ({}, {(A, 5): "root-5"}, None, ""),
        ({}, None, None, ""),
        ({"root": "x"}, None, K.MARKER_FORGED, "was forged or altered: its signature does not fit"),
        ({"key_id": "k2"}, None, K.MARKER_FORGED, "was forged or altered: it is by an unknown key"),
        ({}, {}, K.MARKER_MISFIT, "is not in the checkpoint files"),
        ({}, {(A, 5): "x"}, K.MARKER_MISFIT, "is not in the checkpoint files"),
        ({}, {(B, 5): "root-5", (A, 4): "root-5"}, K.MARKER_MISFIT, "is not in the checkpoint files"),
    ],
)
def test_a_marker_is_found_to_be_exactly_this(
    changes: dict[str, str], known: dict[tuple[InstanceId, int], str] | None, kind: FindingKind | None, why: str
) -> None:
    """Genuine, forged, by another key, or unknown to the second place."""
    claims = None if known is None else Claims(retained=known)
    marker = msgspec.structs.replace(a_marker(), **changes)
    text = f"the retention marker of instance a up to number 5 {why}"
    expected = [] if kind is None else [Finding(kind, text, instance=A, sequence=5)]
    assert list(marker_findings([marker], PlainJudge(), claims)) == expected


def test_the_marker_that_reaches_furthest_counts() -> None:
    """Of each instance, in whatever order they come."""
    markers = [a_marker(3), a_marker(5), a_marker(4), a_marker(1, B)]
    assert newest_markers(markers) == {A: a_marker(5), B: a_marker(1, B)}
    other = msgspec.structs.replace(a_marker(5), root="x")
    assert newest_markers([a_marker(5), other]) == {A: a_marker(5)}


def links(*children: str, first: int = 1, root: str = NOTHING) -> list[ClosedChild]:
    """Return a running root of children."""
    made: list[ClosedChild] = []
    for number, child in enumerate(children, first):
        root = closed_root(root, child, f"link-{child}")
        made.append(ClosedChild(A, number, ChildId(child), f"link-{child}", root))
    return made


WALK = links("x", "y", "z")
NAMED = "of the running root of instance a"


def of_root(kind: FindingKind, number: int, text: str, child: str = "") -> Finding:
    """Return a finding about the root of instance `a`."""
    return Finding(kind, text, A, ChildId(child), number)


def gap(which: str, number: int) -> Finding:
    """Return a finding about numbers that are not there."""
    return of_root(K.ROOT_MISSING, number, f"number {which} {NAMED} missing, and no retention marker covers it")


def contradicted(number: int, by: str = "the record") -> Finding:
    """Return a finding about a claim."""
    return of_root(K.ROOT_CONTRADICTED, number, f"number {number} {NAMED}: {by} and a signed checkpoint differ")


def state(number: int, root: str) -> ClosedState:
    """Return where the record says that the root stands."""
    return ClosedState(A, number, root)


def altered(number: int, child: str) -> Finding:
    """Return a finding about a link."""
    text = f"number {number} {NAMED} was altered: the root before it, child {child} and its last link do not give it"
    return of_root(K.ROOT_ALTERED, number, text, child)


def cut(at: int, said: str) -> Finding:
    """Return a finding about the end."""
    return of_root(K.ROOT_CUT, at + 1, f"the end {NAMED} was cut off: it ends at {at}, {said}")


MARKER = RetentionMarker(A, 1, WALK[0].root, moment(9), moment(10), "k1", "")
OTHER_LAST = msgspec.structs.replace(WALK[2], root="x")
NOT_THE_ROOT = of_root(K.ROOT_ALTERED, 3, f"number 3 {NAMED} is not the root that the record says it stands at")


@pytest.mark.parametrize(
    ("taken", "marker", "stands", "claims", "unsigned", "findings"),
    [
        (WALK, None, None, {}, 3, []),
        (WALK, None, state(3, WALK[2].root), {2: WALK[1].root}, 1, []),
        (WALK, None, state(3, WALK[2].root), {3: WALK[2].root}, 0, []),
        (WALK[1:], MARKER, state(3, WALK[2].root), {1: WALK[0].root}, 2, []),
        (WALK[1:], MARKER, None, {}, 2, []),
        (WALK[1:], MARKER, None, {1: "x"}, 2, [contradicted(1, "the retention marker")]),
        (WALK[1:], None, None, {}, 3, [gap("1", 1)]),
        (WALK[2:], None, None, {}, 3, [gap("1 to 2", 1)]),
        ([WALK[0], WALK[2]], None, None, {}, 3, [gap("2", 2)]),
        ([WALK[0], WALK[0], *WALK[1:]], None, None, {}, 3, [gap("2", 2)]),
        ([*WALK[:2], OTHER_LAST], None, None, {}, 3, [altered(3, "z")]),
        (WALK, None, None, {2: "x", 3: "x"}, 0, [contradicted(2)]),
        (WALK, None, None, {3: WALK[2].root, 5: "x", 7: "x"}, 0, [cut(3, "a checkpoint has 7")]),
        (WALK, None, state(3, "x"), {}, 3, [NOT_THE_ROOT]),
        (WALK, None, state(3, "x"), {3: "x"}, 0, [contradicted(3)]),
        (WALK, None, state(2, "x"), {3: "x"}, 0, [of_root(K.ROOT_ALTERED, 2, NOT_THE_ROOT.text.replace("3", "2"))]),
        (WALK, None, state(4, "x"), {}, 3, [cut(3, "and stands at 4")]),
        ([], None, state(0, "x"), {}, 0, [of_root(K.ROOT_ALTERED, 0, NOT_THE_ROOT.text.replace("3", "0"))]),
        ([], MARKER, None, {}, 0, []),
        ([], None, state(1, "x"), {1: "x"}, 0, [cut(0, "a checkpoint has 1"), cut(0, "and stands at 1")]),
    ],
)
def test_a_running_root_is_found_to_be_exactly_this(
    taken: list[ClosedChild],
    marker: RetentionMarker | None,
    stands: ClosedState | None,
    claims: dict[int, str],
    unsigned: int,
    findings: list[Finding],
) -> None:
    """Whole, behind a marker, with gaps, altered, contradicted once, and cut; and how much is not signed yet."""
    walk = RootWalk(A, marker, stands, claims)
    assert walk.first == walk.number == (1 if marker else 0)
    found = [*walk.begin(), *(finding for link in taken for finding in walk.take(link)), *walk.end()]
    assert found == findings
    assert walk.unsigned == unsigned


CHILD = a_child(a_dispatch())
LIFE = tuple(a_life(CHILD))


def closed(last_link: str = LIFE[-1].link, number: int = 2, instance: InstanceId = A) -> ClosedChild:
    """Return the link of the child in a running root."""
    return ClosedChild(instance, number, CHILD.child_id, last_link, "root")


def test_a_child_is_closed_once() -> None:
    """The second time is named with both places."""
    children = ClosedChildren()
    assert list(children.take(closed())) == []
    text = f"child {CHILD.child_id} is closed twice: as number 2 of instance a, and as number 7 of instance b"
    assert list(children.take(closed(number=7, instance=B))) == [Finding(K.ROOT_ALTERED, text, B, CHILD.child_id, 7)]


@pytest.mark.parametrize(
    ("link", "events", "kept_before", "kind", "text", "sequence"),
    [
        (closed(), 6, None, None, "", 0),
        (
            *(closed("x"), 6, None, K.CHILD_REWRITTEN),
            "child {} was written anew: instance a closed it with another last link",
            6,
        ),
        (
            *(closed(), 4, None, K.TAIL_CUT),
            "the tail of child {} was cut off after event 4: it was closed as number 2 of instance a",
            5,
        ),
        (
            *(closed(), 0, None, K.TAIL_CUT),
            "the tail of child {} was cut off after event 0: it was closed as number 2 of instance a",
            1,
        ),
    ],
)
def test_a_child_ends_as_its_running_root_says(
    link: ClosedChild, events: int, kept_before: None, kind: FindingKind | None, text: str, sequence: int
) -> None:
    """With the very event that it was closed with."""
    children = ClosedChildren()
    list(children.take(link))
    expected = [] if kind is None else [Finding(kind, text.format(CHILD.child_id), A, CHILD.child_id, sequence)]
    assert list(children.check(StoredChild(CHILD, LIFE[:events]), kept_before)) == expected
    assert (children.open, children.late) == (0, {})
    assert list(children.not_there({})) == list(children.still_late()) == []


def test_a_child_that_no_running_root_names_is_open_or_late() -> None:
    """Unless it was closed before what retention may have removed."""
    closing = LIFE[-1].time
    for kept_before, late in ((None, True), (closing, True), (closing + timedelta(microseconds=1), False)):
        children = ClosedChildren()
        assert list(children.check(StoredChild(CHILD, LIFE), kept_before)) == []
        text = f"child {CHILD.child_id} is closed, and no running root names it: that was removed, or the child put in"
        expected = [Finding(K.CHILD_NOT_IN_ROOT, text, child_id=CHILD.child_id)]
        assert list(children.still_late()) == (expected if late else [])
        assert children.late == ({CHILD.child_id: LIFE[-1].link} if late else {})
    children = ClosedChildren()
    for _ in range(2):
        assert list(children.check(StoredChild(CHILD, LIFE[:5]), None)) == []
    assert (children.open, children.late) == (2, {})


def test_a_child_that_was_never_seen_was_removed() -> None:
    """Unless retention removed it: up to its number, and not before."""
    children = ClosedChildren()
    list(children.take(closed()))
    text = f"child {CHILD.child_id} was removed: it is number 2 of the running root of a"
    expected = [Finding(K.CHILD_REMOVED, text, A, CHILD.child_id, 2)]
    assert list(children.not_there({})) == list(children.not_there({A: 1, B: 9})) == expected
    assert list(children.not_there({A: 2})) == []
    first = ClosedChildren()
    list(first.take(closed(number=1)))
    assert len(list(first.not_there({}))) == 1
