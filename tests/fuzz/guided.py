"""Runs one target under atheris, for `tests.fuzz.run`: `python -m tests.fuzz.guided TARGET [OPTIONS of libFuzzer]`."""

import sys
from importlib import import_module
from typing import Any

atheris: Any = import_module("atheris")

if __name__ == "__main__":
    with atheris.instrument_imports(include=["sidecar", "subagents_errors"], enable_loader_override=False):
        from tests.fuzz.run import TARGETS
    atheris.Setup([sys.argv[0], *sys.argv[2:]], TARGETS[sys.argv[1]].run)
    atheris.Fuzz()
