"""`docs/bucketing.md`: another program follows it and puts every user into the same bucket as the sidecar."""

import json
import re
import subprocess
from pathlib import Path
from typing import Final

from sidecar.core.rollout.bucketing import GOLDEN, VERSION, bucket_of
from tests.architecture.reading import REPOSITORY
from tests.support.named_skips import needs_tool
from tests.support.requirement import requirement

PAGE: Final = (REPOSITORY / "docs" / "bucketing.md").read_text("utf-8")
PROGRAM: Final = Path(__file__).with_name("bucketing.mjs")
HARD: Final = ("user-7", "\x1f", "b1\x1fshop", "ключ", "👩‍🚀", "a" * 256, " ", "\n", "\u0000")


def vectors() -> list[tuple[str, str, int]]:
    """Return salt, key and bucket of each vector on the page."""
    (block,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    return [(each["salt"], each["key"], each["bucket"]) for each in json.loads(block)]


@requirement("PF1-D-66")
def test_the_vectors_of_the_page_are_those_that_each_start_checks() -> None:
    """Page and sidecar name the same version."""
    assert vectors() == list(GOLDEN)
    assert f"## The algorithm `{VERSION}`" in PAGE


@requirement("PF1-D-66")
def test_a_program_written_from_the_page_alone_agrees_with_the_sidecar() -> None:
    """JavaScript without any of our code: on the vectors, and on salts and keys that are hard to encode or to join."""
    node = needs_tool("node", package="nodejs")
    pairs = [(salt, key) for salt, key, _ in vectors()]
    pairs += [(salt, key) for salt in ("shop", "shop/9aa71472d0c3b5e1", *HARD) for key in HARD]
    asked = json.dumps([{"salt": salt, "key": key} for salt, key in pairs])
    done = subprocess.run([node, PROGRAM], input=asked, capture_output=True, text=True, timeout=300, check=True)
    assert json.loads(done.stdout) == [bucket_of(salt, key) for salt, key in pairs]
