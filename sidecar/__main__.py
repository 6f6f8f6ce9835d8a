"""`sidecar`, and `python -m sidecar`: hand the commands what they need, read the settings once, exit with a code.

What only one command needs is imported when that command runs: a health check every few seconds must cost little.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from sidecar.cli.app import Commands, make_app
from sidecar.core.definitions.resolving import Loaded
from sidecar.policy.selection import PolicySettings
from sidecar.settings import Settings, read_settings


def main() -> None:
    """Run the command line; does not return."""
    commands = Commands(
        read_settings=lambda file: read_settings(file, os.environ),
        serve=_serve,
        load=_load,
        built_ins=_built_ins,
        policy=_policy,
    )
    make_app(commands)(prog_name="sidecar")


def _serve(settings: Settings) -> int:
    from sidecar.composition.process import run  # noqa: PLC0415  only this command needs gRPC and an event loop

    return run(settings)


def _load(folder: Path) -> Loaded:
    from sidecar.adapters.definitions_directory.git_history import GitHistory  # noqa: PLC0415  only `validate` needs it
    from sidecar.adapters.definitions_directory.loading import load_directory  # noqa: PLC0415  the same holds

    return load_directory(folder, commits_of=GitHistory(folder).commits_of)


def _built_ins() -> Sequence[object]:
    from sidecar.composition.built_ins import BUILT_INS  # noqa: PLC0415  only `plugins` needs it

    return BUILT_INS


def _policy(settings: Settings) -> PolicySettings:
    from sidecar.composition.from_settings import policy_settings  # noqa: PLC0415  only `plugins` needs it

    return policy_settings(settings)


if __name__ == "__main__":
    main()
