"""`python -m subagents_evals.runs.watchdog`: stops the sidecar of an evaluation that was killed.

Reads lines from standard input, which ends when the evaluation does: `pid <number>`, `folder <path>`, `done`.
"""

import os
import shutil
import signal
import sys
from contextlib import suppress


def main() -> None:
    """Wait for the end of the evaluation; unless it sent `done`, kill the process and remove the folder."""
    told: dict[str, str] = {}
    for line in sys.stdin:
        name, _, value = line.strip().partition(" ")
        told[name] = value
    if "done" in told:
        return
    with suppress(ProcessLookupError, KeyError):
        os.kill(int(told["pid"]), signal.SIGKILL)
    if folder := told.get("folder"):
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
