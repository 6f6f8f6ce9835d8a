"""A test that does not run is listed with what was missing, or fails where nothing may be missing."""

import pytest

from tests.support.named_skips import SKIPS_FAIL

CONTENT = """
    import pytest
    from tests.support.named_skips import needs_tool

    def test_needs_what_is_not_there():
        needs_tool("no-such-program", package="no-such-package")

    def test_runs():
        assert needs_tool("sh")

    @pytest.mark.xfail(strict=True, reason="shows that an expected failure is no skip")
    def test_expected():
        assert False
"""


PLUGIN = ("--disable-plugin-autoload", "-p", "tests.support.named_skips", "-p", "no:cacheprovider")


def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, *, forbidden: bool) -> pytest.RunResult:
    """Run three tests of which one lacks its tool."""
    if forbidden:
        monkeypatch.setenv(SKIPS_FAIL, "1")
    else:
        monkeypatch.delenv(SKIPS_FAIL, raising=False)
    pytester.makepyfile(CONTENT)
    return pytester.runpytest_inprocess(*PLUGIN)


def test_a_missing_tool_is_named_at_the_end(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a developer's machine."""
    result = run(pytester, monkeypatch, forbidden=False)
    result.assert_outcomes(passed=1, skipped=1, xfailed=1)
    result.stdout.fnmatch_lines(
        [
            "*not run on this machine*",
            "missing tool: no-such-program (Debian package no-such-package): 1 test(s)",
            "*::test_needs_what_is_not_there",
        ]
    )


def test_a_missing_tool_fails_where_skips_are_forbidden(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the pipeline, which installs everything."""
    result = run(pytester, monkeypatch, forbidden=True)
    result.assert_outcomes(passed=1, failed=1, xfailed=1)
    result.stdout.fnmatch_lines(["*SIDECAR_SKIPS_FAIL=1 forbids it: missing tool: no-such-program*"])


def test_a_skipped_module_fails_where_skips_are_forbidden(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A skip while collecting counts too."""
    monkeypatch.setenv(SKIPS_FAIL, "1")
    pytester.makepyfile("import pytest\npytest.importorskip('no_such_module')")
    result = pytester.runpytest_inprocess(*PLUGIN)
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*forbids it: could not import 'no_such_module'*"])
