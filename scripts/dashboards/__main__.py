"""Write the files."""

from pathlib import Path
from typing import Final

from scripts.dashboards.contents import ALL

FOLDER: Final = Path(__file__).resolve().parents[2] / "examples" / "dashboards"


def main() -> None:
    """Write each dashboard to `examples/dashboards/<name>.json`."""
    for dashboard in ALL:
        (FOLDER / f"{dashboard.name}.json").write_text(dashboard.to_json(), encoding="utf-8")


if __name__ == "__main__":
    main()
