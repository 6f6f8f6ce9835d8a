"""Runs all processes of a repository that `sidecar init` wrote, and restarts the processes that use changed files."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, Final

from sidecar.cli.dev import guardian
from sidecar.cli.dev.child import Child, ChildOutput
from sidecar.cli.dev.reading import Folded, news
from sidecar.cli.dev.turn_watch import Answers, TurnEnded, TurnWatch
from sidecar.cli.output.drawing import Part, Screen, clean
from sidecar.cli.record.client import SidecarAddress

SIDECAR: Final = "sidecar"
SETTINGS: Final = "sidecar.toml"
LOGS: Final = Path(".run/dev")
PYTHON: Final = (sys.executable, "-u")
"""Unbuffered output, so that each line is shown immediately."""
INTERVAL: Final = 0.25
"""Seconds between two checks of the files."""
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Stop:
    """A signal has requested the end."""


class DevSession:
    """The processes of one repository, which is the working directory.

    Args:
        screen: the output for lines and timelines.
        config: the folder of the definitions, which the sidecar reloads itself.
        consumer: a script that runs once the sidecar answers, and again after a change; None: none.
    """

    def __init__(self, screen: Screen, config: Path, consumer: Path | None) -> None:
        self._screen = screen
        self._folder = Path.cwd()
        self._config = config
        self._consumer = consumer
        # `SimpleQueue.put` may interrupt a `get` of the same thread; that of `Queue` would deadlock. The signal handler
        # needs this.
        self._events: SimpleQueue[Any] = SimpleQueue()
        self._children: dict[str, Child] = {}
        self._folded: dict[str, Folded] = {}
        self._signals = 0
        # Lines to the guardian come from this thread and from the reader thread of each child.
        self._guard_lock = threading.Lock()

    def run(self, where: SidecarAddress) -> None:
        """Run until a signal."""
        LOGS.mkdir(parents=True, exist_ok=True)
        # Before the first process starts, so that every signal stops all processes in order.
        self._listen_to_signals()
        with self._with_guardian(), TurnWatch(where, self._screen, self._events):
            seen = self._files()
            for name, command in self._commands(seen).items():
                self._start(name, command)
            while True:
                try:
                    # One thread handles everything: output, signals and changed files need no locks among themselves.
                    event = self._events.get(timeout=INTERVAL)
                except Empty:
                    seen = self._restart_changed(seen)
                    continue
                if isinstance(event, Stop):
                    self._say("dev", "stopping")
                    return
                self._handle(event)

    @contextmanager
    def _with_guardian(self) -> Iterator[None]:
        """Start the guardian, which ends every child at the end, and also if this process is killed."""
        # `-I`: neither its folder nor `PYTHONPATH` can replace modules of the standard library.
        command = [sys.executable, "-I", guardian.__file__]
        with subprocess.Popen(  # noqa: S603  a module of this package
            command, stdin=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            self._guardian = process
            try:
                yield
            finally:
                for child in self._children.values():
                    # Marked before the guardian ends them, so that their end is not reported as a failure.
                    child.stopping = True
                with self._guard_lock:
                    if process.stdin is not None:
                        # The guardian, a separate process, kills the children when its input ends, whatever ended this
                        # process.
                        process.stdin.close()

    def _guard(self, sign: str, group: int) -> None:
        """Tell the guardian that a process group has started (`+`) or ended (`-`)."""
        with self._guard_lock:
            # A child that ends during the stop is reported after the pipe was closed.
            if (pipe := self._guardian.stdin) is not None and not pipe.closed:
                pipe.write(f"{sign}{group}\n")
                pipe.flush()

    def _listen_to_signals(self) -> None:
        def stop(_number: int, _frame: FrameType | None) -> None:
            if self._signals:
                for child in self._children.values():
                    child.kill()
            self._signals += 1
            self._events.put(Stop())

        for number in SIGNALS:  # also after the first signal: a second one kills what is still ending
            signal.signal(number, stop)

    def _files(self) -> dict[Path, tuple[int, int]]:
        """Return the files whose change matters, each with a mark that changes with its content."""
        paths = [*Path().glob("*.py"), Path(SETTINGS), *self._config.rglob("*")]
        marks: dict[Path, tuple[int, int]] = {}
        for path in paths:
            try:
                status = path.stat()
            except OSError:  # removed meanwhile
                continue
            # By time and size: the files are few, and an editor changes both.
            marks[path] = (status.st_mtime_ns, status.st_size)
        return marks

    def _commands(self, files: Mapping[Path, object]) -> dict[str, list[str]]:
        """Return the command of each process by its name: the data service, the runner hosts, and last the sidecar."""
        scripts = [path for path in sorted(files) if path.name == "data_service.py" or path.name.endswith("_agent.py")]
        script_commands = {path.stem: [*PYTHON, str(path)] for path in scripts if path.parent == Path()}
        return {**script_commands, SIDECAR: [*PYTHON, "-m", "sidecar", "serve", "--config", SETTINGS]}

    def _restart_changed(self, seen: dict[Path, tuple[int, int]]) -> dict[Path, tuple[int, int]]:
        """Restart the processes that use changed files; return the files."""
        now = self._files()
        changed = {path for path in {*seen, *now} if seen.get(path) != now.get(path)}
        if not changed:
            return now
        commands = self._commands(now)
        scripts = {path for path in changed if path.parent == Path() and path.suffix == ".py"}
        names = {path.stem for path in scripts}
        consumer_changed = self._consumer is not None and self._consumer in scripts
        # A changed script that is no process is a module that processes import. It is unknown which, so all restart.
        # Except `ask.py`, which is run by hand: no process imports it.
        modules = names - set(commands) - set(self._children) - {self._consumer.stem if self._consumer else "", "ask"}
        concerned = (set(commands) - {SIDECAR}) if modules else names & {*commands, *self._children}
        # A sidecar that ended because of a wrong definition starts again once a definition changes.
        if Path(SETTINGS) in changed or (self._has_ended(SIDECAR) and changed - scripts):
            concerned.add(SIDECAR)
        # Without folders, which change with each file in them.
        what = ", ".join(sorted(str(path) for path in changed if path.is_file() or path not in now)) or "files"
        restarting = f"; restarting: {', '.join(sorted(concerned))}" if concerned else ""
        self._say("dev", f"changed: {what}{restarting}")
        for name in sorted(concerned):
            if name in self._children:
                self._children.pop(name).stop()
            if name in commands:
                self._start(name, commands[name])
        if consumer_changed:
            self._run_consumer()
        return now

    def _has_ended(self, name: str) -> bool:
        return name not in self._children

    def _start(self, name: str, command: list[str]) -> None:
        self._folded[name] = Folded(self._folder)
        log = LOGS / f"{name}.log"
        self._children[name] = Child(name, command, log=log, events=self._events, guard=self._guard)

    def _run_consumer(self) -> None:
        if self._consumer is not None:
            name = self._consumer.stem
            if name in self._children:
                self._children.pop(name).stop()
            self._start(name, [*PYTHON, str(self._consumer)])

    def _handle(self, event: Any) -> None:
        match event:
            case Answers():
                self._say("dev", "the sidecar answers; Ctrl-C ends everything")
                # Only at the first answer: after a restart of the sidecar, the consumer still runs or has run.
                # `_folded` has every process that was ever started.
                if self._consumer is not None and self._consumer.stem not in self._folded:
                    self._run_consumer()
            case TurnEnded(lines):
                self._screen.show([[], *lines, []])
            case ChildOutput(child, None, code):
                self._report_end(child, code)
            case ChildOutput(child, str(line)):
                shown = self._folded[child.name].shown(line)
                shown = news(shown) if child.name == SIDECAR else shown
                if shown:
                    self._say(child.name, shown)
            case _:
                raise AssertionError(event)

    def _report_end(self, child: Child, code: int) -> None:
        """Report the end of a child, unless this session ended it."""
        # A restarted process has another child under the same name.
        if self._children.get(child.name) is child:
            del self._children[child.name]
        is_consumer = self._consumer is not None and child.name == self._consumer.stem
        if child.stopping or (is_consumer and code == 0):
            return
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        next_step = "" if is_consumer else "; it restarts when its files change"
        self._say(child.name, f"ended with {how}{next_step}; complete output: {child.log}", "red")

    def _say(self, name: str, text: str, style: str = "") -> None:
        self._screen.show([[Part(f"{name} | ", "cyan"), Part(clean(text), style)]])
