"""Test files of the same name, in packages of their own, all run."""

from pathlib import Path
from typing import Final

import pytest

ALONE: Final = ("--disable-plugin-autoload", "-p", "no:cacheprovider", "--import-mode=importlib")
GUARD: Final = ("-p", "tests.support.own_modules")


@pytest.fixture
def folder(pytester: pytest.Pytester) -> Path:
    """Two distributions, each with `checks/test_same.py`; the test of the second one fails."""
    for name, holds in (("first", True), ("second", False)):
        package = pytester.path / "clients" / name / "checks"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("", encoding="utf-8")
        (package / "test_same.py").write_text(f"def test_{name}(): assert {holds}\n", encoding="utf-8")
    return pytester.path


@pytest.mark.usefixtures("folder")
def test_a_file_that_is_taken_for_another_one_ends_the_run(pytester: pytest.Pytester) -> None:
    """Without the setting, pytest would run the first file twice, and all would be well."""
    result = pytester.runpytest_subprocess(*ALONE, *GUARD)

    assert result.ret is pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*second/checks/test_same.py would not run*"])


@pytest.mark.usefixtures("folder")
def test_with_the_setting_of_this_repository_each_file_runs(pytester: pytest.Pytester) -> None:
    """`consider_namespace_packages`: the test that fails is found."""
    settings = (Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8")
    (line,) = [line for line in settings.splitlines() if line.startswith("consider_namespace_packages")]
    pytester.makeini(f"[pytest]\npythonpath = .\n{line.partition(' #')[0]}\n")

    result = pytester.runpytest_subprocess(*ALONE, *GUARD)

    result.assert_outcomes(passed=1, failed=1)
