"""Finds and reads the files of a configuration folder, its root, and no file outside of it.

A symbolic link is followed only if it leads to a place inside the root. An example is the link `..data` with which
Kubernetes swaps a whole version. Hidden files and folders are skipped. The root itself may be a link.
"""

import os
import stat
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from sidecar.adapters.definitions_directory.yaml_documents import BYTES_AT_MOST
from sidecar.core.definitions.files.problems import Problem
from sidecar.core.definitions.files.registries import BLOCKS_FOLDER, CONFIG_FILE

# These limits are far above any real configuration. A wrong root, e.g. a home directory, exceeds them and is refused.
FILES_AT_MOST: Final = 1_000
TOTAL_BYTES_AT_MOST: Final = 16 * 1024 * 1024
FOLDERS_DEEP_AT_MOST: Final = 8
ENDINGS: Final = (".yaml", ".yml")


class Tree(Struct):
    """The contents of all files of a configuration at one time.

    Attributes:
        files: content by path relative to the root, in order of path. Of a file that is too large, only one byte more
            than allowed is read.
        unread: paths of files that exist but could not be read.
        problems: why these files could not be read.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def refuse(self, path: str, text: str) -> None:
        """Note that an existing path could not be read."""
        self.unread.append(path)
        self.problems.append(Problem(path, None, "", text))

    @property
    def fingerprint(self) -> str:
        """Return a digest of names, contents and unreadable paths, which differs between any two states."""
        return fingerprint_of(self.files, [f"{problem.file}\0{problem.text}" for problem in self.problems])


def fingerprint_of(files: Mapping[str, bytes], others: list[str]) -> str:
    """Return a digest of the paths and contents of files, and of other texts."""
    digest = sha256()
    for path, content in sorted(files.items()):
        name = os.fsencode(path)
        # With the lengths: otherwise the end of one content and the beginning of the next path could be exchanged.
        digest.update(b"%d:%d:" % (len(name), len(content)) + name + content)
    digest.update("\1".join(sorted(others)).encode(errors="surrogateescape"))
    return digest.hexdigest()


def read_tree(root: Path) -> Tree:
    """Read `agent_config.yaml` and every YAML file below `prompts/components/`. Problems are returned, never raised."""
    tree = Tree()
    # The root is resolved once. If it is a link that is swapped during the read, all files are still of one version.
    real_root = os.path.realpath(root)
    if not os.path.isdir(real_root):
        why = "is a file, not a folder" if os.path.lexists(root) else "does not exist"
        tree.refuse(CONFIG_FILE, f"cannot be read: the configuration root {root} {why}")
        return tree
    paths = [CONFIG_FILE]
    if not os.path.lexists(os.path.join(real_root, CONFIG_FILE)):
        paths = []
        tree.refuse(CONFIG_FILE, f"is missing in {root}; it holds `agents`, `models` and `tools`")
    paths += sorted(_block_files(real_root, tree))
    if len(paths) > FILES_AT_MOST:
        tree.refuse(BLOCKS_FOLDER, f"holds more than {FILES_AT_MOST} files")
        paths = paths[:FILES_AT_MOST]
    total = 0
    for path in paths:
        content = _read(real_root, path, tree)
        total += 0 if content is None else len(content)
        if total > TOTAL_BYTES_AT_MOST:
            tree.refuse(path, f"is where all files together pass {TOTAL_BYTES_AT_MOST // 1024 // 1024} MiB")
            break
        if content is not None:
            tree.files[path] = content
    return tree


def _block_files(real_root: str, tree: Tree) -> list[str]:
    """Return the paths of the YAML files below `prompts/components/`. A folder with several links to it is read once.

    The search is in breadth, and it ends at the limits of files and folders.
    """
    paths: list[str] = []
    folders = [(BLOCKS_FOLDER, 0)]
    visited: set[str] = set()
    while folders and len(paths) <= FILES_AT_MOST and len(visited) <= FILES_AT_MOST:
        folder, depth = folders.pop(0)
        real = os.path.realpath(os.path.join(real_root, folder))
        # Links can form a circle.
        if real in visited:
            continue
        visited.add(real)
        for name in _names_in(real, real_root, folder, tree):
            path = f"{folder}/{name}"
            if not os.path.isdir(os.path.join(real_root, path)):
                paths.extend([path] if name.endswith(ENDINGS) else [])
            elif depth < FOLDERS_DEEP_AT_MOST:
                folders.append((path, depth + 1))
            else:
                tree.refuse(path, f"is more than {FOLDERS_DEEP_AT_MOST} folders deep")
    return paths


def _names_in(real: str, real_root: str, folder: str, tree: Tree) -> list[str]:
    """Return the visible names in a folder whose real path is inside the root."""
    if not _is_inside(real, real_root):
        tree.refuse(folder, "is a link that leads out of the configuration root")
        return []
    try:
        return sorted(name for name in os.listdir(real) if not name.startswith("."))
    # The folder was removed after it was found. The next check sees the same files as if it had never existed.
    except FileNotFoundError:
        return []
    except OSError as error:
        tree.refuse(folder, f"cannot be read: {os.strerror(error.errno or 0)}")
        return []


def _read(real_root: str, path: str, tree: Tree) -> bytes | None:
    """Return the file's bytes. Return None, and note the problem in `tree`, if it is no readable file in the root."""
    real = os.path.realpath(os.path.join(real_root, path))
    if not _is_inside(real, real_root):
        tree.refuse(path, "is a link that leads out of the configuration root")
        return None
    try:
        # NOFOLLOW: fails if the resolved path has become a link since. NONBLOCK: opening a named pipe must not block.
        handle = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        tree.refuse(path, f"cannot be read: {os.strerror(error.errno or 0)}")
        return None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            tree.refuse(path, "is not a plain file")
            return None
        with os.fdopen(handle, "rb", closefd=False) as opened:
            # One byte more than allowed shows that the file is too large, without reading all of it.
            return opened.read(BYTES_AT_MOST + 1)
    except OSError as error:
        tree.refuse(path, f"cannot be read: {os.strerror(error.errno or 0)}")
        return None
    finally:
        os.close(handle)


def _is_inside(real: str, real_root: str) -> bool:
    return os.path.commonpath([real, real_root]) == real_root
