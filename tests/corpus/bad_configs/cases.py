"""Every bad configuration with the exact lines that are printed about it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.corpus.bad_configs import fields, references, yaml_traps
from tests.corpus.bad_configs.good import BadConfig

EXPECTED: Final = Path(__file__).with_name("expected.txt")

BAD_CONFIGS: Final[tuple[BadConfig, ...]] = (*references.CASES, *fields.CASES, *yaml_traps.CASES)


def expected() -> Mapping[str, list[str]]:
    """Return the lines by name of the case: in the file, the lines below `# name`."""
    lines: dict[str, list[str]] = {}
    for line in EXPECTED.read_text("utf-8").splitlines():
        if line.startswith("# "):
            current = lines.setdefault(line[2:], [])
        elif line:
            current.append(line)
    return lines
