"""What the page says about cases is what the reader takes."""

import re
import shutil
from pathlib import Path
from typing import Final

import msgspec

from subagents_evals.inputs.cases import Case, Suite, read_golden_set
from subagents_evals.measures.thresholds import MEASURED
from tests.architecture.reading import REPOSITORY

PAGE: Final = REPOSITORY / "docs" / "evaluating-routing.md"
SUITE: Final = REPOSITORY / "examples" / "config" / "evals" / "suite.yaml"


def test_the_case_of_the_page_can_be_read_with_the_example_suite(tmp_path: Path) -> None:
    """The one block of YAML."""
    (block,) = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    shutil.copy(SUITE, tmp_path)
    (tmp_path / "cases.yaml").write_text(block, "utf-8")

    assert [case.id for case in read_golden_set(tmp_path).cases] == ["failure-points"]


def test_every_field_and_every_metric_is_described() -> None:
    """Of a case, of the suite, and what a threshold may name."""
    named = set(re.findall(r"`([a-z_0-9]+)`", PAGE.read_text("utf-8")))
    fields = {one.name for shape in (Case, Suite) for one in msgspec.structs.fields(shape)} - {"version"}

    assert (fields | MEASURED) - {"cases"} <= named


def test_the_number_of_cases_is_the_one_that_is_stated() -> None:
    """Of the example."""
    (stated,) = re.findall(r"The example has (\d+) cases", PAGE.read_text("utf-8"))

    assert len(read_golden_set(SUITE.parent).cases) == int(stated)
