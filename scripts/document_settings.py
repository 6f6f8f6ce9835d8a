"""Writes `examples/settings.example.toml` and `docs/settings.md` from the settings. `--check` only compares."""

import sys
from pathlib import Path
from typing import Final

from sidecar.settings.reference_page import example_toml, settings_page

ROOT: Final = Path(__file__).resolve().parent.parent


def documents() -> dict[Path, str]:
    """Return what each file has to hold."""
    return {ROOT / "examples/settings.example.toml": example_toml(), ROOT / "docs/settings.md": settings_page()}


def main() -> int:
    """Write the files, or say which are not current."""
    stale = [path for path, text in documents().items() if not path.exists() or path.read_text("utf-8") != text]
    for path in stale:
        print(f"{path.relative_to(ROOT)} is not current")
        if "--check" not in sys.argv:
            path.write_text(documents()[path], "utf-8")
    return int("--check" in sys.argv and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
