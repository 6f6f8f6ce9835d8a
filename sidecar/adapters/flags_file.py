"""The flag backend `file`: reads the flags from a JSON or TOML file that another program writes.

A half-written file must never be read as complete: a missing kill flag would count as switched off, which kills its
definition. Truncated JSON cannot be parsed, but TOML that is truncated between two lines can. A TOML file must end with
the line `END_LINE` for this reason.
"""

import asyncio
import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from sidecar.core.decoding import DecodeError, from_json_by_pairs, from_toml, from_utf8
from sidecar.core.errors import StoreUnavailable
from sidecar.policy.protocols import FlagReport
from sidecar.policy.specs import FlagBackendSpec

BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
"""The form of keys that need no quotes in TOML."""
END_LINE: Final = "# end of flags"
LONGEST_NAME: Final = 200
"""In characters."""
LARGEST_FILE: Final = 1024 * 1024
"""In bytes. A file of this size has about 20,000 flags."""


class FileFlagEdits:
    """The `FlagWriter` of this backend. It writes nothing: it tells operators what to edit in the file.

    Args:
        path: the path of the file, ending in `.json` or `.toml`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Raise `StoreUnavailable`: the sidecar never writes the file."""
        raise StoreUnavailable(f"the sidecar does not write flag files; edit {self.edit_for(name, on)}")

    def edit_for(self, name: str, on: bool) -> str:
        """Return one line with the file, the place in it, and the text to write there."""
        state, quoted = json.dumps(on), json.dumps(name, ensure_ascii=False)
        if self._path.suffix == ".toml":
            key = name if BARE.fullmatch(name) else quoted
            return f"{self._path}: under [flags] set {key} = {state}"
        return f'{self._path}: in "flags" set {quoted}: {state}'


class FlagFileProblem(Exception):
    """The content of the file is invalid. The flags of the last valid file are used until they are too old."""


def flags_in_json(text: str) -> Mapping[str, bool]:
    """Return the flags in `{"flags": {"name": true, ...}}`. Raises `FlagFileProblem`."""
    try:
        document = from_json_by_pairs(text, _without_duplicates)
    except DecodeError as error:
        raise FlagFileProblem(f"is not whole JSON: {error}") from error
    return _flags_in(document)


def flags_in_toml(text: str) -> Mapping[str, bool]:
    """Return the flags in a TOML file with a `[flags]` table. Raises `FlagFileProblem`."""
    if text.rstrip().rpartition("\n")[2] != END_LINE:
        raise FlagFileProblem(f"does not end with the line `{END_LINE}`, so it may be half-written")
    try:
        document = from_toml(text)
    except DecodeError as error:
        raise FlagFileProblem(f"is not whole TOML: {error}") from error
    return _flags_in(document)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object as a dictionary. Raises `FlagFileProblem` for a duplicate key."""
    # Python's parser would use the last of two values, and the author may have meant the first.
    unique = dict(pairs)
    if len(unique) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise FlagFileProblem(f"has the key {twice!r} twice")
    return unique


def _flags_in(document: Any) -> Mapping[str, bool]:
    """Return the flags of a parsed file, by name. Raises `FlagFileProblem`."""
    if not isinstance(document, dict) or not isinstance(document.get("flags"), dict):
        raise FlagFileProblem("has no table `flags`")
    unknown = sorted(set(document) - {"flags"})
    if unknown:
        raise FlagFileProblem(f"has the unknown key {unknown[0]!r}; only `flags` is known")
    flags: dict[str, bool] = document["flags"]
    for name, state in flags.items():
        if not isinstance(state, bool):
            raise FlagFileProblem(f"flag {name!r} is neither true nor false")
        if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
            raise FlagFileProblem(f"flag {name[:LONGEST_NAME]!r}: a name is 1 to {LONGEST_NAME} printable characters")
    return flags


class FileFlags:
    """A flag backend that reads a file.

    A change is detected by the hash of the content. It is therefore also detected after a write in place, a swapped
    symbolic link, or the restoration of an older copy.

    Args:
        path: the path of the file, ending in `.json` or `.toml`.
        poll_interval: seconds between two reads while waiting for a change.
    """

    def __init__(self, path: Path, poll_interval: float) -> None:
        self._path = path
        self._poll_interval = poll_interval
        self._fetched = ""
        # Not asyncio's own threads: a read that hangs would take one of them from the rest of the process.
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="flags-file")

    async def fetch(self) -> FlagReport:
        """Read the file and return its flags.

        Raises:
            FlagFileProblem: the file is incomplete, invalid or too large.
            OSError: the file cannot be read.
        """
        content = await self._content()
        parse = flags_in_toml if self._path.suffix == ".toml" else flags_in_json
        try:
            flags = parse(from_utf8(content))
        except DecodeError as error:
            raise FlagFileProblem(f"{self._path} is not UTF-8") from error
        except FlagFileProblem as problem:
            raise FlagFileProblem(f"{self._path} {problem}") from problem
        # Set only after a successful parse: if the file is half-written now, `changed` must return for it again.
        self._fetched = _revision(content)
        # The report also lists flags that are off, to distinguish them from names that the file does not have.
        on = frozenset(name for name, state in flags.items() if state)
        return FlagReport(on, self._fetched, frozenset(flags) - on)

    async def changed(self) -> None:
        """Wait until the content of the file differs from the last successful fetch.

        An unreadable file does not count as a change.
        """
        while True:
            try:
                if _revision(await self._content()) != self._fetched:
                    return
            except (OSError, FlagFileProblem):
                pass  # the sidecar also fetches periodically, and the next `fetch` raises the error
            await asyncio.sleep(self._poll_interval)

    async def close(self) -> None:
        """Stop reading. Does not wait for a read that blocks, e.g. on a network drive."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _content(self) -> bytes:
        """Return the content of the file. A read that is cancelled before it has begun does not begin."""
        # One thread for all reads: a read of an unreachable network drive may block for minutes. It must block neither
        # the event loop nor one thread after the other.
        return await asyncio.wrap_future(self._threads.submit(_read, self._path))


def _read(path: Path) -> bytes:
    # NONBLOCK, because opening a named pipe would wait for a writer.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise FlagFileProblem(f"{path} is not a regular file")
        # One byte more than allowed shows that the file is too large, without reading all of it.
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise FlagFileProblem(f"{path} is larger than {LARGEST_FILE} bytes")
    return content


def _revision(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _create(settings: Mapping[str, Any]) -> FileFlags:
    return FileFlags(Path(settings["path"]), float(settings.get("poll_seconds", 0.5)))


FILE_FLAGS: Final = FlagBackendSpec(
    name="file",
    contract="flag-backend/1",
    summary="Flags from a JSON or TOML file, read again whenever its content changes",
    config_schema={
        "type": "object",
        "properties": {
            "path": {
                "type": "string",
                "pattern": r"\.(json|toml)$",
                "description": "The file, ending in .json or .toml.",
            },
            "poll_seconds": {
                "type": "number",
                "minimum": 0.05,
                "maximum": 60,
                "description": "Seconds between two looks at the file; 0.5 unless said.",
            },
        },
        "required": ["path"],
        "additionalProperties": False,
    },
    capabilities=frozenset({"push"}),
    factory=_create,
)


def sidecar_flag_backends() -> Sequence[FlagBackendSpec]:
    """Offer `file`."""
    return [FILE_FLAGS]
