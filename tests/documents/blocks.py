"""The fenced blocks of every page that people read."""

import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.architecture.reading import REPOSITORY

PAGES: Final = ("README.md", "docs/**/*.md", "clients/*/README.md", "plugins/**/README.md", "proto/**/*.md")
FENCE: Final = re.compile(r"^( *)```([^\n`]*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
SHOWN: Final = 50
"""Characters of a block's first line in its name."""


@dataclass(frozen=True)
class Block:
    """One block.

    Attributes:
        name: page and first line; a later one that begins alike has its number behind it.
        info: what stands behind the fence, such as `yaml agent_config.yaml tools`.
    """

    page: str
    name: str
    info: str
    text: str

    @property
    def kind(self) -> str:
        """The language; `console` where nothing is said and a prompt is shown."""
        said = self.info.partition(" ")[0]
        return said or ("console" if re.search(r"^\$ ", self.text, re.MULTILINE) else "")

    @property
    def wanted(self) -> str:
        """What the info string says beyond the language."""
        return self.info.partition(" ")[2]


def blocks(root: Path = REPOSITORY) -> tuple[Block, ...]:
    """Return every block, page by page."""
    found = sorted({path for pattern in PAGES for path in root.glob(pattern) if "node_modules" not in path.parts})
    texts = ((path.relative_to(root).as_posix(), path.read_text("utf-8")) for path in found)
    return tuple(block for page, text in texts for block in blocks_of(page, text))


def blocks_of(page: str, text: str) -> Iterator[Block]:
    """Yield the blocks of one page."""
    seen: Counter[str] = Counter()
    for _, info, indented in FENCE.findall(text):
        body = textwrap.dedent(indented)
        first = next((line.strip() for line in body.splitlines() if line.strip()), "")[:SHOWN].rstrip()
        seen[first] += 1
        number = f" ({seen[first]})" if seen[first] > 1 else ""
        yield Block(page, f"{page}: {first}{number}", info.strip(), body)


def block(name: str) -> Block:
    """Return the block of that name."""
    return next(each for each in blocks() if each.name == name)
