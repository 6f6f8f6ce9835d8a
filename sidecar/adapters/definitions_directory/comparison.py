"""Reads the two versions that `sidecar validate-refs` compares: the present files (the head) and a base.

The base is a commit in git or a second folder. Of a commit, only files that differ from the head are read and parsed.
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from sidecar.adapters.definitions_directory.annotations import annotations_of
from sidecar.adapters.definitions_directory.files import Tree, read_tree
from sidecar.adapters.definitions_directory.git_base import GitBase, open_base
from sidecar.adapters.definitions_directory.yaml_documents import Parsed, parse
from sidecar.core.definitions.files.problems import printable
from sidecar.core.definitions.files.registries import CONFIG_FILE
from sidecar.core.definitions.review.overrides import Annotation
from sidecar.core.definitions.review.references import (
    BaseSelection,
    Comparison,
    ComparisonRefused,
    Side,
    base_side,
    head_side,
)

OWNED: Final = "dubious ownership"
"""Git's error for a checkout that another user owns, such as a checkout that is mounted into a container."""
NOTHING_BEFORE: Final = f"the base has no {CONFIG_FILE}: every entry counts as new"
"""A message to the user, in `Comparison.told`."""


def compare(root: Path, request: BaseSelection) -> Comparison:
    """Read the files below `root` and the selected base. If no base is selected, it is empty.

    Raises:
        ComparisonRefused: one of the two versions cannot be read, or there is no such base.
    """
    if request.ref is not None:
        return compare_with_commit(root, request.ref)
    if request.folder is not None:
        return compare_with_folder(root, Path(request.folder))
    head = read_tree(root)
    return Comparison(base_side((), (), {}), _head(head, _parsed(head)), under=_under(root))


def compare_with_commit(root: Path, ref: str) -> Comparison:
    """Read the files below `root` and, as the base, the merge base of HEAD and `ref`.

    Raises:
        ComparisonRefused: git cannot find the merge base, or one of the two versions cannot be read.
    """
    try:
        return _with_commit(root, open_base(root, ref))
    # Before `OSError`, which includes it. `open_base` has checked the folder, so only git can be missing.
    except FileNotFoundError:
        raise ComparisonRefused("git is not installed; install it, or give the base as a folder: --base-dir") from None
    except subprocess.TimeoutExpired:
        raise ComparisonRefused("git did not answer in time; try again, or give the base as a folder") from None
    except subprocess.CalledProcessError as error:
        messages = error.stderr.decode(errors="replace").strip().splitlines()
        raise ComparisonRefused(_refusal(messages[0] if messages else "it does not say why", root)) from None
    except (OSError, ValueError) as error:
        raise ComparisonRefused(f"the base cannot be read out of git: {printable(str(error))}") from None


def compare_with_folder(root: Path, base: Path) -> Comparison:
    """Read the files below `root` and, as the base, the files below `base`.

    Raises:
        ComparisonRefused: `base` is not a folder, or one of the two versions cannot be read.
    """
    if not base.is_dir():
        raise ComparisonRefused(f"{base} is not a folder; --base-dir wants one that holds {CONFIG_FILE}")
    head = read_tree(root)
    tree = read_tree(base)
    _refuse_unreadable(tree)
    parsed = {path: parse(content, path) for path, content in tree.files.items()}
    told = () if CONFIG_FILE in tree.files else (NOTHING_BEFORE,)
    return Comparison(_base(parsed, tree.files), _head(head, _parsed(head)), under=_under(root), told=told)


def _refusal(message: str, root: Path) -> str:
    """Return git's message, with the remedy if git refuses a checkout that another user owns."""
    # `--system`, because personal git settings are not read: a `safe.directory` in them would have no effect.
    remedy = f"; allow it with `git config --system --add safe.directory {root.resolve()}`" if OWNED in message else ""
    return f"git refuses: {printable(message)}{remedy}"


def _with_commit(root: Path, base: GitBase) -> Comparison:
    tree = read_tree(root)
    head_parsed = _parsed(tree)
    # Of a large configuration usually a few files differ. The others have the same content in the base.
    changed = base.changed_since(tree.files)
    contents = base.contents(changed)
    parsed = {path: parse(contents[path], path) if path in contents else head_parsed[path] for path in base.files.blobs}
    raw = {path: contents.get(path, tree.files.get(path, b"")) for path in base.files.blobs}
    told = base.told if CONFIG_FILE in base.files.blobs else (*base.told, NOTHING_BEFORE)
    head = _head(tree, head_parsed)
    return Comparison(_base(parsed, raw), head, base.trailers(), frozenset(), base.head_under, told)


def _under(root: Path) -> str:
    """Return the folder's path in the repository, if the command was run at the repository's top; else empty."""
    plain = PurePosixPath(root.as_posix())
    return "" if str(plain) == "." or plain.is_absolute() else f"{plain}/"


def _parsed(tree: Tree) -> dict[str, Parsed]:
    return {path: parse(content, path) for path, content in tree.files.items()}


def _head(tree: Tree, parsed: Mapping[str, Parsed]) -> Side:
    documents = [one.document for one in parsed.values() if one.document is not None]
    unread = [*tree.unread, *(path for path, one in parsed.items() if one.document is None)]
    earlier = [*tree.problems, *(problem for one in parsed.values() for problem in one.problems)]
    return head_side(documents, unread, earlier, _annotations(tree.files))


def _base(parsed: Mapping[str, Parsed], raw: Mapping[str, bytes]) -> Side:
    config = parsed.get(CONFIG_FILE)
    # A base whose main file cannot be parsed would look empty. The checks would then miss every removed entry.
    if config is not None and config.document is None:
        raise ComparisonRefused(
            f"the base cannot be compared with: {config.problems[-1].render()}; name an older commit that can be read "
            "(--base), or switch off the checks that look at the base: --skip c --skip d"
        )
    documents = [one.document for one in parsed.values() if one.document is not None]
    unread = [path for path, one in parsed.items() if one.document is None]
    return base_side(documents, unread, _annotations(raw))


def _refuse_unreadable(tree: Tree) -> None:
    for problem in tree.problems:
        raise ComparisonRefused(f"the base cannot be read: {problem.render()}")


def _annotations(files: Mapping[str, bytes]) -> Mapping[str, tuple[Annotation, ...]]:
    return {path: annotations for path, content in files.items() if (annotations := annotations_of(content))}
