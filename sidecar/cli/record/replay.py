"""Implements `sidecar replay`: runs a recorded turn through the installed code, and prints the differences."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from sidecar.cli.record.replay_command import CANNOT, ReplayOptions
from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.replaying.document import CannotReplay, ReplayDocument, document_from_json
from sidecar.operations.replay.replay_turn import ReplayReport

SAME: Final = 0
DIFFERS: Final = 1


@dataclass(frozen=True, slots=True)
class Replaying:
    """The operations that the command calls; both raise `CannotReplay`.

    Attributes:
        fetch: gets an exported turn from the running sidecar by its id, as JSON text.
        replay: replays an exported turn.
    """

    fetch: Callable[[str], bytes]
    replay: Callable[[ReplayDocument], ReplayReport]


def replay(options: ReplayOptions, replaying: Replaying, out: TextIO) -> int:
    """Replay a turn, or export its input, and print the result.

    Args:
        options: the turn, where its input comes from, and the form of the output.
        replaying: the operations.
        out: where to print.

    Returns:
        The exit code: 0 the same (or exported), 1 it differs, 2 it cannot be replayed.

    Source: PC1-FR-10d, SX-48.
    """
    try:
        raw = replaying.fetch(options.turn_id) if options.source is None else _read(options.source)
        # Also before an export, so that no file is written that a replay would refuse.
        document = document_from_json(raw)
        # Only possible with --from: a file of another turn would give a verdict about the wrong turn.
        if document.turn_id != options.turn_id:
            raise CannotReplay(f"{options.source} holds turn {document.turn_id}, not {options.turn_id}")
        if options.export is not None:
            return _export(options.export, raw, document, out)
        report = replaying.replay(document)
    except CannotReplay as problem:
        text = (
            json.dumps({"replayed": False, "why": str(problem)})
            if options.as_json
            else f"cannot be replayed: {problem}"
        )
        out.write(f"{text}\n")
        return CANNOT
    out.write(_as_json(options.turn_id, report) if options.as_json else _as_text(options.turn_id, report))
    return DIFFERS if report.differences else SAME


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as problem:
        raise CannotReplay(f"{file} cannot be read: {problem.strerror}") from None


def _export(file: Path, raw: bytes, document: ReplayDocument, out: TextIO) -> int:
    try:
        # The bytes as they came: fields that this version does not know must not be lost.
        file.write_bytes(raw)
    except OSError as problem:
        raise CannotReplay(f"{file} cannot be written: {problem.strerror}") from None
    out.write(
        f"turn {document.turn_id}: {_counted(len(document.dispatches), 'dispatch', 'dispatches')}, "
        f"{_counted(len(document.attempts), 'attempt', 'attempts')}, {len(raw)} bytes in {file}\n"
    )
    return SAME


def _as_text(turn_id: str, report: ReplayReport) -> str:
    calls = sum(len(outcomes) for outcomes in report.replayed.outcomes.values())
    verdict = "DIFFERS" if report.differences else "the same"
    lines = [f"turn {turn_id}: {_counted(calls, 'call', 'calls')} replayed: {verdict}"]
    lines += [f"  differs  {each}" for each in report.differences]
    lines += [f"  note     {each}" for each in report.notes]
    return "\n".join(lines) + "\n"


def _as_json(turn_id: str, report: ReplayReport) -> str:
    by_dispatch = {key: [_outcome(each) for each in outcomes] for key, outcomes in report.replayed.outcomes.items()}
    result = {
        "replayed": True,
        "turn_id": turn_id,
        "same": not report.differences,
        "differences": report.differences,
        "notes": report.notes,
        "joined": by_dispatch,
    }
    return json.dumps(result, indent=2) + "\n"


def _outcome(outcome: CallOutcome) -> dict[str, Any]:
    return {
        "call_id": outcome.call_id,
        "sub_agent_id": outcome.sub_agent_id,
        "outcome": outcome.outcome.value,
        "reason": outcome.reason and str(outcome.reason),  # null if the call succeeded
        "attempts": outcome.attempts,
        "narration": outcome.answer.narration,
        "components": [each.name for each in outcome.answer.components],
    }


def _counted(number: int, one: str, many: str) -> str:
    """Return a number with its noun, e.g. `2 dispatches`."""
    return f"{number} {one if number == 1 else many}"
