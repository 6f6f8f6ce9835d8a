"""The README's function tells from the headers of a real attempt for whom it is."""

import re
from pathlib import Path
from typing import Any

import pytest

from plugins.runner_a2a.tests.test_identity import KEY, asked_with
from sidecar_conformance.run_requests import PRINCIPAL

PAGE = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


async def test_the_readme_verifies_a_signed_identity(tmp_path: Path) -> None:
    """With the right key and in time; else it raises."""
    (sample,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(sample, "README.md", "exec"), names)
    file = tmp_path / "key"
    file.write_text(KEY)
    headers = dict((await asked_with(signing_key_file=str(file), signing_key_id="k1")).headers)

    assert names["user_of"](headers, KEY.encode()) == PRINCIPAL
    with pytest.raises(PermissionError, match="not signed"):
        names["user_of"](headers, b"another key")
