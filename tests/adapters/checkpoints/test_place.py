"""The file of checkpoints: only ever appended to, whole lines, by several at once."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sidecar.adapters.checkpoints import CheckpointFile, Ed25519Judge
from sidecar.core.executing.checkpoints import Claims, LineKind, Statement
from sidecar.core.executing.findings import Finding
from sidecar.core.executing.stored import ClosedState
from sidecar.core.executing.verifying_checkpoints import LinesVerifier
from sidecar.core.identifiers import InstanceId
from sidecar.operations.checkpoint_ports import PlaceUnavailable
from tests.support.second_place import a_key, a_signer

AT = datetime(2026, 11, 22, 1, 2, 3, 456_789, tzinfo=UTC)
A, B = InstanceId("a"), InstanceId("b")


def stating(number: int, instance: InstanceId = A) -> Statement:
    """Return a statement about an instance."""
    return Statement(kind=LineKind.CHECKPOINT, instance=instance, number=number, root=f"{number:064x}", time=AT)


def verified(lines: Iterable[bytes]) -> tuple[list[Finding], LinesVerifier]:
    """Return what is wrong with a file."""
    verifier = LinesVerifier(Claims(), Ed25519Judge([a_key("ours").public_key()]))
    return list(verifier.findings(lines)), verifier


async def test_lines_follow_each_other_over_restarts_and_instances(tmp_path: Path) -> None:
    """Three appends by two objects; the file verifies, and says where each instance stands."""
    path = tmp_path / "away" / "checkpoints.jsonl"
    first, second = CheckpointFile(path, a_signer()), CheckpointFile(path, a_signer())
    await first.append([stating(1), stating(2)])
    await second.append([stating(1, B)])
    await first.append([stating(5)])

    assert await second.standing() == {A: ClosedState(A, 5, f"{5:064x}"), B: ClosedState(B, 1, f"{1:064x}")}
    findings, verifier = verified(path.read_bytes().splitlines(keepends=True))
    assert (findings, verifier.lines) == ([], 4)


@pytest.mark.parametrize("left", [1, 80, -1])
async def test_a_write_that_was_cut_off_is_written_over_by_nothing(tmp_path: Path, left: int) -> None:
    """A first byte, a piece, and all but the end of a line are left by a crash; the next line goes behind that."""
    path = tmp_path / "checkpoints.jsonl"
    place = CheckpointFile(path, a_signer())
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


async def test_several_may_append_at_once(tmp_path: Path) -> None:
    """Forty appends of eight objects, each in a thread: one after the other in the file."""
    places = [CheckpointFile(tmp_path / "checkpoints.jsonl", a_signer()) for _ in range(8)]
    await asyncio.gather(*(place.append([stating(number)]) for place in places for number in range(5)))

    findings, verifier = verified((tmp_path / "checkpoints.jsonl").read_bytes().splitlines(keepends=True))
    assert (findings, verifier.lines) == ([], 40)


async def test_what_the_system_refuses_is_said(tmp_path: Path) -> None:
    """The place is a folder."""
    place = CheckpointFile(tmp_path, a_signer())
    with pytest.raises(PlaceUnavailable, match="cannot be used: Is a directory"):
        await place.append([stating(1)])
    with pytest.raises(PlaceUnavailable, match="cannot be used: Is a directory"):
        await place.standing()
