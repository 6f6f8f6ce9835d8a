"""`python -m subagents_loadgen`, and the command `subagents-loadgen`."""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from subagents_loadgen.hdr import write_logs
from subagents_loadgen.page import page_of
from subagents_loadgen.report import FORMAT, Report, as_json
from subagents_loadgen.run_request import RunRequest, understood
from subagents_loadgen.running import NotMeasured, progress_screen, run
from subagents_loadgen.text import as_text

KEPT: Final = 0
BROKEN: Final = 1
NOT_MEASURED: Final = 3
INTERRUPTED: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the load generator and return the exit code, as `--help` lists them."""
    asked = understood(arguments)
    try:
        earlier = _earlier(
            asked.earlier
        )  # before the run, so that a missing file is not noticed only after an hour of load
        report = asyncio.run(run(asked, progress_screen(asked)))
        _write(asked, report, earlier)
    except NotMeasured as problem:
        print(f"not measured: {problem}", file=sys.stderr)  # noqa: T201  the command line talks to a person
        return NOT_MEASURED
    except KeyboardInterrupt:
        return INTERRUPTED
    text = json.dumps(as_json(report), indent=2) if asked.as_json else as_text(report)
    print(text)  # noqa: T201  the report is what the command is for
    return exit_code(report, asked.max_failed)


def exit_code(report: Report, max_failed: float) -> int:
    """Return the exit code of a finished run."""
    broken = [one for one, value in report.verdicts() if not one.kept(value)]
    if report.tally.violations or report.share_failed > max_failed or broken:
        return BROKEN
    return INTERRUPTED if report.interrupted else KEPT


def _earlier(path: Path | None) -> dict[str, Any] | None:
    if path is None:
        return None
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if found.get("format") == FORMAT:
            return found
    except (OSError, ValueError, AttributeError):
        pass
    raise NotMeasured(f"--compare {path}: expected JSON of format {FORMAT}, as --json-file writes it")


def _write(asked: RunRequest, report: Report, earlier: dict[str, Any] | None) -> None:
    try:
        if asked.json_file is not None:
            asked.json_file.write_text(f"{json.dumps(as_json(report), indent=2)}\n", encoding="utf-8")
        if asked.page_file is not None:
            asked.page_file.write_text(page_of(as_json(report), earlier), encoding="utf-8")
        if asked.hdr_folder is not None:
            write_logs(report, asked.hdr_folder)
    except OSError as problem:
        print(f"a report could not be written: {problem}", file=sys.stderr)  # noqa: T201  for people; the text report is printed anyway


if __name__ == "__main__":
    sys.exit(main())
