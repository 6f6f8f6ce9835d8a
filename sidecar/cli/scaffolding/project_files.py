"""Writes a new project from templates, completely or not at all; for `sidecar init` and `sidecar plugins new`."""

import tempfile
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from string import Template


class ScaffoldError(Exception):
    """The project cannot be written. The message names cause and remedy."""


def write_project(name: str, folder: Path, contents: Mapping[str, str]) -> Path:
    """Write files into the new folder `name` in `folder`; return its path.

    Args:
        name: of the project; one part of a path.
        folder: exists.
        contents: text of each file, by its path inside the project.

    Raises:
        ScaffoldError: something with this name exists, or the folder cannot be written.
    """
    project = folder / name
    if _exists(project):
        raise _exists_already(project)
    try:
        # In a temporary folder first, and in the same file system, where a rename is atomic.
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder) as temporary:
            written = Path(temporary) / name
            for path, text in contents.items():
                (written / path).parent.mkdir(parents=True, exist_ok=True)
                (written / path).write_text(text, encoding="utf-8")
            # Refused if another process has put a file or a folder with contents there meanwhile.
            written.rename(project)
    except OSError as error:
        if _exists(project):
            raise _exists_already(project) from None
        raise ScaffoldError(f"{project} cannot be written: {error.strerror or error}") from error
    return project


def _exists(project: Path) -> bool:
    return project.exists() or project.is_symlink()


def _exists_already(project: Path) -> ScaffoldError:
    return ScaffoldError(f"{project} exists already; choose another name, or another folder with --dir")


def filled(template: str, words: Mapping[str, str]) -> str:
    """Return a template of this package with its `$words` replaced.

    Args:
        template: path below `sidecar/cli`, with `/`.
        words: value of each word.
    """
    return Template(files("sidecar.cli").joinpath(*template.split("/")).read_text("utf-8")).substitute(words)
