"""Says how a flag file has to be edited: the sidecar only reads it."""

import json
import re
from pathlib import Path
from typing import Final

from sidecar.core.errors import StoreUnavailable

BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
"""Keys that TOML takes without quotes."""


class FileFlagEdits:
    """In the place of a writer.

    Args:
        path: of the file, ending in `.json` or `.toml`.
    """

    def __init__(self, path: Path) -> None:
        """Keep the path."""
        self._path = path

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Raise `StoreUnavailable`: somebody else replaces the file."""
        raise StoreUnavailable(f"the sidecar does not write flag files; edit {self.edit_for(name, on)}")

    def edit_for(self, name: str, on: bool) -> str:
        """Return the file, where in it, and the text that has to stand there."""
        state, quoted = json.dumps(on), json.dumps(name, ensure_ascii=False)
        if self._path.suffix == ".toml":
            key = name if BARE.fullmatch(name) else quoted
            return f"{self._path}: under [flags] set {key} = {state}"
        return f'{self._path}: in "flags" set {quoted}: {state}'
