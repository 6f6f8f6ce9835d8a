"""Writes `examples/settings.example.toml` and `docs/settings.md` from the settings. `--check` only compares."""

import sys
from pathlib import Path
from typing import Final

from scripts.generated_page import write_or_check
from sidecar.settings.reference_page import example_toml, settings_page

ROOT: Final = Path(__file__).resolve().parent.parent


def documents() -> dict[Path, str]:
    """Return what each file has to hold."""
    return {ROOT / "examples/settings.example.toml": example_toml(), ROOT / "docs/settings.md": settings_page()}


def main() -> int:
    """Write the files, or say which are not current."""
    # A list and not a generator: with `--check`, every file that is not current is named.
    return max([write_or_check(path, text) for path, text in documents().items()])


if __name__ == "__main__":
    sys.exit(main())
