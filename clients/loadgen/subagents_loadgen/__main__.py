"""`python -m subagents_loadgen`, and the command `subagents-loadgen`."""

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Final

from subagents_loadgen.asking import understood
from subagents_loadgen.report import Report, as_json, as_text
from subagents_loadgen.running import NotMeasured, progress_screen, run

KEPT: Final = 0
BROKEN: Final = 1
NOT_MEASURED: Final = 3
INTERRUPTED: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the load generator and return the exit code, as `--help` lists them."""
    asked = understood(arguments)
    try:
        report = asyncio.run(run(asked, progress_screen(asked)))
    except NotMeasured as problem:
        print(f"not measured: {problem}", file=sys.stderr)  # noqa: T201  the command line talks to a person
        return NOT_MEASURED
    except KeyboardInterrupt:
        return INTERRUPTED
    text = json.dumps(as_json(report), indent=2) if asked.as_json else as_text(report)
    print(text)  # noqa: T201  the report is what the command is for
    return exit_code(report, asked.max_failed)


def exit_code(report: Report, max_failed: float) -> int:
    """Return what the run was worth."""
    if report.tally.violations or report.share_failed > max_failed:
        return BROKEN
    return INTERRUPTED if report.interrupted else KEPT


if __name__ == "__main__":
    sys.exit(main())
