"""What a copy of a warm process could not honour: such a process is started as always."""

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.support.fork_server.asking import ROOT, Asked
from tests.support.fork_server.shown import Room, in_memory

FREE: Final = ("SIDECAR", "DEMO_", "OPENAI_", "PYTEST_")
"""How variables begin that are read when a process runs, not when a module is imported."""
FREE_NAMES: Final = frozenset(
    "CHAT COLUMNS HOLD HOME MODEL NO_COLOR PATH PIP_DISABLE_PIP_VERSION_CHECK PWD PYTHONPATH "
    "PYTHONUNBUFFERED SHLVL TERM TMPDIR _".split()
)
"""Further ones; `PYTHONPATH` and `PYTHONUNBUFFERED` are honoured by the server."""

MODULES: Final = ("py", "pyc", "so")


def refusal(asked: Asked, environment: Mapping[str, str], loaded: Collection[str], room: Room) -> str:
    """Return why a copy cannot be what is asked for, or nothing.

    Args:
        asked: the process.
        environment: that the server was started with.
        loaded: names of the modules that the server has imported.
        room: for what `/proc` shows of the process.
    """
    for name in asked.environment.keys() | environment.keys():
        if asked.environment.get(name) != environment.get(name) and not _is_free(name):
            return f"the variable {name} may act at the start"
    if environment.get("PYTHONPATH") not in (None, "", asked.environment.get("PYTHONPATH")):
        return "its module path lacks folders of the server's"
    ours = {name.partition(".")[0] for name in loaded}
    for folder in (asked.folder, *module_path(asked.environment)):
        if Path(folder) != ROOT and (others := ours & _modules_in(folder)):
            return f"{folder} has another {min(others)}"
    arguments, variables = in_memory(asked)
    return "" if len(arguments) <= room.arguments and len(variables) <= room.variables else "it is too long"


def module_path(environment: Mapping[str, str]) -> list[str]:
    """Return the folders of `PYTHONPATH`."""
    return [folder for folder in environment.get("PYTHONPATH", "").split(os.pathsep) if folder]


def _is_free(name: str) -> bool:
    return name in FREE_NAMES or name.startswith(FREE)


def _modules_in(folder: str) -> set[str]:
    """Return the top names that can be imported from a folder."""
    with suppress(OSError):
        found = [name.partition(".") for name in os.listdir(folder)]
        return {name for name, _, rest in found if not rest or rest.endswith(MODULES)}
    return set()
