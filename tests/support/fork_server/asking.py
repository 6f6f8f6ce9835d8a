"""What a server is asked for, and which commands can be asked for at all."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[3]
COMMAND: Final = str(Path(sys.executable).with_name("sidecar"))
"""The console script; `python -m sidecar` is the same."""
OURS: Final = (
    "clients examples scripts.benchmark sidecar sidecar_gates_manifest sidecar_runner_langchain subagents_evals "
    "subagents_loadgen tests.support"
).split()
"""Packages whose modules are run as a copy."""
STARTERS: Final = (
    ("examples.demo",),
    ("tests.support.demo_of_a_terminal",),
    ("sidecar", "eval"),
    ("sidecar", "plugins", "doctor"),
)
"""Commands that start others."""
UNDERSTOOD: Final = frozenset(
    "args bufsize cwd encoding env errors limit pass_fds pipesize process_group shell start_new_session stderr stdin "
    "stdout text universal_newlines".split()
)
"""Arguments of `subprocess.Popen` that a copy honours. With any other, a process is started as always."""
MOST_PASSED: Final = 8
"""Further open files that a process can be given."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A process that is asked for.

    Attributes:
        command: with the interpreter in front.
        module: what runs as `__main__`.
        arguments: behind the module.
        environment: all of it.
        folder: where it runs; absolute.
        new_session: whether it leads a session of its own.
        group: the process group that it joins; 0: one of its own; None: that of whom asks.
        passed: numbers of open files that it is given beside the standard streams.
    """

    command: Sequence[str]
    module: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    new_session: bool = False
    group: int | None = None
    passed: Sequence[int] = ()

    @property
    def starts_others(self) -> bool:
        """Whether it needs a server of its own."""
        return any((self.module, *self.arguments)[: len(each)] == each for each in STARTERS)

    def encoded(self) -> bytes:
        """Return it as it travels to the server."""
        return json.dumps(asdict(self)).encode()


def decoded(sent: bytes) -> Asked:
    """Return what was sent."""
    return Asked(**json.loads(sent))


def asked_by(args: Any, options: Mapping[str, Any]) -> Asked | None:
    """Return what `subprocess.Popen(args, **options)` asks for, or None if no copy can be that."""
    if isinstance(args, str | bytes | os.PathLike) or options.get("shell") or not options.keys() <= UNDERSTOOD:
        return None
    command = [os.fsdecode(one) for one in args]
    if command[0] == COMMAND:
        module, arguments = "sidecar", command[1:]
    elif command[:2] == [sys.executable, "-m"] and len(command) > 2:
        module, arguments = command[2], command[3:]
    else:
        return None
    folder = os.path.abspath(os.fsdecode(options.get("cwd") or os.getcwd()))
    if not any(f"{module}.".startswith(f"{package}.") for package in OURS) or not os.path.isdir(folder):
        return None
    given = options.get("env")
    environment = {
        os.fsdecode(name): os.fsdecode(value) for name, value in (os.environ if given is None else given).items()
    }
    session, group = bool(options.get("start_new_session")), options.get("process_group")
    passed = sorted(options.get("pass_fds", ()))
    asked = Asked(command, module, arguments, environment, folder, session, None if group == -1 else group, passed)
    return None if len(passed) > (0 if asked.starts_others else MOST_PASSED) else asked
