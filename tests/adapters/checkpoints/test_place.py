"""The file of checkpoints: only ever appended to, whole lines, by several at once."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from sidecar.adapters.checkpoints import CheckpointFile, Ed25519Judge, Ed25519Signer
from sidecar.core.identifiers import InstanceId
from sidecar.core.journal.appends import RootState
from sidecar.core.signatures import Verification
from sidecar.core.verifying.checkpoint_lines import CheckpointClaims, LineKind, RootKey, Statement, line_from
from sidecar.core.verifying.findings import Finding, FindingKind
from sidecar.core.verifying.verify_lines import LinesVerifier
from sidecar.operations.record.checkpoint_ports import CheckpointHead, CheckpointStoreUnavailable
from tests.support.second_place import a_key, a_signer

AT = datetime(2026, 11, 22, 1, 2, 3, 456_789, tzinfo=UTC)
A, B = InstanceId("a"), InstanceId("b")
DAY = date(2026, 11, 22)


def stating(number: int, instance: InstanceId = A, day: date = DAY, kind: LineKind = LineKind.CHECKPOINT) -> Statement:
    """Return a statement about a running root."""
    return Statement(kind=kind, instance=instance, day=day, number=number, root=f"{number:064x}", time=AT)


def reaching(*numbers: int, instances: Sequence[InstanceId] = (A, B)) -> CheckpointHead:
    """Return how far the roots of instances reach, on one day."""
    roots = [RootState(each, DAY, number, f"{number:064x}") for each, number in zip(instances, numbers, strict=False)]
    return CheckpointHead({RootKey(root.instance, root.day): root for root in roots})


def verified(lines: Iterable[bytes]) -> tuple[list[Finding], LinesVerifier]:
    """Return what is wrong with a file."""
    verifier = LinesVerifier(CheckpointClaims(), Ed25519Judge([a_key("ours").public_key()]))
    return list(verifier.findings(lines)), verifier


async def test_lines_follow_each_other_over_restarts_and_instances(tmp_path: Path) -> None:
    """Three appends by two objects; the file verifies, and says where each instance stands."""
    path = tmp_path / "away" / "checkpoints.jsonl"
    first, second = (CheckpointFile(path, a_signer(), _no_report) for _ in range(2))
    await first.append([stating(1), stating(2)])
    await second.append([stating(1, B)])
    await first.append([stating(5)])

    assert await second.standing() == reaching(5, 1)
    findings, verifier = verified(path.read_bytes().splitlines(keepends=True))
    assert (findings, verifier.lines) == ([], 4)


class ExchangedMeanwhile(Ed25519Signer):
    """A signer whose key is exchanged as soon as an append has read its id; `shared` is the one that others hold."""

    shared: "ExchangedMeanwhile"

    @property
    def key_id(self) -> str:
        """Return the id, and have another key in use from then on."""
        key_id = super().key_id
        self.shared.adopt(a_signer("others"))
        return key_id


async def test_a_key_that_is_exchanged_during_an_append_signs_none_of_its_lines(tmp_path: Path) -> None:
    """Id and signature of a line are of one key; the next append uses the new one."""
    path, signer = tmp_path / "checkpoints.jsonl", ExchangedMeanwhile(a_key("ours"))
    signer.shared = signer
    place = CheckpointFile(path, signer, _no_report)
    await place.append([stating(1), stating(2)])
    await place.append([stating(3)])

    judge = Ed25519Judge([a_key("ours").public_key(), a_key("others").public_key()])
    lines = [line for row in path.read_bytes().splitlines() if (line := line_from(row)) is not None]
    judged = [judge.judge(line.key_id, line.signed_bytes(), line.signature) for line in lines]
    assert judged == [Verification.FITS] * 3
    ours, others = a_signer("ours").key_id, a_signer("others").key_id
    assert [line.key_id for line in lines] == [ours, ours, others]


@pytest.mark.parametrize("left", [1, 80, -1])
async def test_a_write_that_was_cut_off_is_written_over_by_nothing(tmp_path: Path, left: int) -> None:
    """A first byte, a piece, and all but the end of a line are left by a crash; the next line goes behind that."""
    path = tmp_path / "checkpoints.jsonl"
    place = CheckpointFile(path, a_signer(), _no_report)
    await place.append([stating(1)])
    whole = path.read_bytes()
    await place.append([stating(2)])
    cut = whole + path.read_bytes()[len(whole) :][:left]
    path.write_bytes(cut)

    await place.append([stating(3)])

    assert path.read_bytes().startswith(cut)
    findings, verifier = verified(path.read_bytes().splitlines(keepends=True))
    assert findings == []
    assert (verifier.lines, verifier.torn) == ((3, 0) if left == -1 else (2, 1))


@pytest.mark.parametrize("damage", [b"\xff", b"\x00", b'","deep":' + b"[" * 5000])
async def test_a_damaged_line_is_reported_once_and_passed_over(tmp_path: Path, damage: bytes) -> None:
    """Bytes of any kind inside the second of three lines: both others count, and what comes next links to the last."""
    path, reports = tmp_path / "checkpoints.jsonl", list[tuple[str, str]]()
    await CheckpointFile(path, a_signer(), _no_report).append([stating(1), stating(2, B), stating(3)])
    lines = path.read_bytes().splitlines(keepends=True)
    damaged = lines[0] + lines[1].replace(b'"root":"', b'"root":"' + damage) + lines[2]
    path.write_bytes(damaged)

    place = CheckpointFile(path, a_signer(), lambda kind, text: reports.append((kind, text)))
    for number in (3, 4):
        assert await place.standing() == reaching(number)
        await place.append([stating(number + 1)])

    assert [kind for kind, _ in reports] == ["checkpoint_line_damaged"]
    assert f"line 2 of {path} cannot be read" in reports[0][1]
    assert path.read_bytes().startswith(damaged)
    findings, verifier = verified(path.read_bytes().splitlines(keepends=True))
    assert {each.kind for each in findings} == {FindingKind.CHECKPOINT_UNREADABLE, FindingKind.CHECKPOINT_MISSING}
    assert verifier.lines == 4


async def test_the_number_of_a_damaged_line_counts_from_the_beginning_of_the_file(tmp_path: Path) -> None:
    """Two megabytes of lines before it, which are not read otherwise."""
    path, reports = tmp_path / "checkpoints.jsonl", list[str]()
    path.write_bytes(b"x" * 999 + b"\n" + (b"y" * 99 + b"\n") * 20_000)
    place = CheckpointFile(path, a_signer(), lambda _, text: reports.append(text))

    assert await place.standing() == CheckpointHead({})

    (report,) = reports
    assert report.startswith("lines 9517, 9518, 9519, 9520, 9521 and 10480 more of ")


async def test_how_far_it_looked_back_is_said(tmp_path: Path) -> None:
    """A day without a line in the last megabyte is older than what was looked at; days of retentions do not count."""
    place = CheckpointFile(tmp_path / "checkpoints.jsonl", a_signer(), _no_report)
    old, later = DAY - timedelta(days=400), DAY + timedelta(days=1)
    await place.append([stating(1, day=DAY), stating(2, day=later)])
    assert (await place.standing()).since is None

    await place.append([stating(number, day=later) for number in range(3, 2600)])
    await place.append([stating(7, day=old, kind=LineKind.RETENTION)])

    standing = await place.standing()
    assert standing.since == later
    assert {day: root.number for (_, day), root in standing.roots.items()} == {later: 2599, old: 7}


async def test_several_may_append_at_once(tmp_path: Path) -> None:
    """Forty appends of eight objects, each in a thread: one after the other in the file."""
    places = [CheckpointFile(tmp_path / "checkpoints.jsonl", a_signer(), _no_report) for _ in range(8)]
    await asyncio.gather(*(place.append([stating(number)]) for place in places for number in range(5)))

    findings, verifier = verified((tmp_path / "checkpoints.jsonl").read_bytes().splitlines(keepends=True))
    assert (findings, verifier.lines) == ([], 40)


async def test_what_the_system_refuses_is_said(tmp_path: Path) -> None:
    """The place is a folder."""
    place = CheckpointFile(tmp_path, a_signer(), _no_report)
    with pytest.raises(CheckpointStoreUnavailable, match="cannot be used: Is a directory"):
        await place.append([stating(1)])
    with pytest.raises(CheckpointStoreUnavailable, match="cannot be used: Is a directory"):
        await place.standing()


def _no_report(kind: str, text: str) -> None:
    raise AssertionError(f"{kind}: {text}")
