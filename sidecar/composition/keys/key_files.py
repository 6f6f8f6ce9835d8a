"""Follows key files that change while the sidecar runs: reads them again, and passes all keys of a setting together.

Operators can thus rotate keys without a restart.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from sidecar.observability import event_names
from sidecar.observability.logging import StructuredLog
from sidecar.settings import SettingsProblem
from subagents_tls.watching import LOOK_SECONDS, FilesProblem, FileWatch

Keys = TypeVar("Keys")


class KeyFiles(Generic[Keys]):
    """Watches the key files of one setting. Unusable files are reported, and the earlier keys stay in use.

    Args:
        setting: the name of the setting, for messages.
        paths: the files.
        read: reads all files; raises `SettingsProblem`.
        anomaly: logs and counts a problem.

    Attributes:
        initial: the keys at the start.

    Raises:
        SettingsProblem: the files cannot be used at the start.
    """

    def __init__(
        self, setting: str, paths: Sequence[Path], read: Callable[[], Keys], anomaly: Callable[[str, str], None]
    ) -> None:
        # Before the watch reads the files, because this error also names the setting and how to create a key.
        read()
        self._setting = setting
        self._read = read
        broken = partial(self._report_unusable, anomaly)
        try:
            self._watch = FileWatch(paths, self._read_again, "keys", broken)
        except FilesProblem as problem:
            raise SettingsProblem([f"{setting}: {problem}"]) from None
        self.initial = self._watch.current()
        # The keys that the caller gets as `initial` count as adopted.
        self._adopted = self._watch.number

    def handing_to(self, adopt: Callable[[Keys], None]) -> Callable[[], Coroutine[Any, Any, None]]:
        """Return a loop that calls `adopt` with each new set of keys; the supervisor owns the loop."""
        return partial(self._run, adopt)

    def look(self, adopt: Callable[[Keys], None]) -> None:
        """Check the files once, and call `adopt` if the keys have changed."""
        keys = self._watch.current()
        # The number counts the successful reads; keys themselves cannot always be compared.
        if self._watch.number != self._adopted:
            # Before `adopt`: if it raises, the supervisor restarts the loop, and the same keys must not fail again and
            # again.
            self._adopted = self._watch.number
            adopt(keys)
            text = f"the files of {self._setting} have changed; the keys in them are in use now"
            StructuredLog("sidecar.keys").info(event_names.KEYS_CHANGED, text, setting=self._setting)

    async def _run(self, adopt: Callable[[Keys], None]) -> None:
        while True:
            self.look(adopt)
            await asyncio.sleep(LOOK_SECONDS)

    def _read_again(self, _: int) -> Keys:
        try:
            return self._read()
        except SettingsProblem as problem:
            # The watch reports this error and keeps the earlier keys.
            raise FilesProblem("; ".join(problem.problems)) from None

    def _report_unusable(self, anomaly: Callable[[str, str], None], problem: str) -> None:
        anomaly("key_files_unusable", problem if problem.startswith(self._setting) else f"{self._setting}: {problem}")
