"""Starts mutmut so that its forks are cheap: each of thousands of mutants is a run of pytest in a fork of one process.

Nothing here uses plugins of installed packages, and pytest would look for them seven times a run. And what is there
before a fork is kept out of the garbage collection of the fork, which would copy it page by page.
"""

import gc
import os

import pluggy
from mutmut.__main__ import cli


def no_plugin(*_arguments: object, **_names: object) -> int:
    """Say that no plugin was found."""
    return 0


if __name__ == "__main__":
    pluggy.PluginManager.load_setuptools_entrypoints = no_plugin  # type: ignore[method-assign]
    os.register_at_fork(before=gc.freeze)
    cli()
