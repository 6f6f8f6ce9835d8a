"""The hook that runs `async def` tests, tried on small test files of its own."""

import pytest

PLUGIN = (
    *("--disable-plugin-autoload", "-p", "tests.support.async_tests", "-p", "no:cacheprovider"),
    *("--strict-markers", "-W", "error"),
)
"""Installed plugins would be imported anew for each of these runs: three seconds of a processor each."""


def outcomes(pytester: pytest.Pytester, content: str) -> pytest.RunResult:
    """Run a test file with our hook and nothing else of ours."""
    pytester.makepyfile(content)
    pytester.makeini("[pytest]\nmarkers = seconds(limit): of an async test\n")
    return pytester.runpytest_inprocess(*PLUGIN)


def test_an_async_test_runs_with_its_fixtures(pytester: pytest.Pytester) -> None:
    """Both ways to end: a true and a false assertion."""
    result = outcomes(
        pytester,
        """
        import asyncio, pytest

        @pytest.fixture
        def number():
            return 3

        async def test_true(number):
            await asyncio.sleep(0)
            assert number == 3

        @pytest.mark.parametrize("wanted", [4])
        async def test_false(number, wanted):
            assert number == wanted
        """,
    )
    result.assert_outcomes(passed=1, failed=1)


def test_each_async_test_has_a_loop_of_its_own(pytester: pytest.Pytester) -> None:
    """A loop that was left behind would carry state from test to test."""
    result = outcomes(
        pytester,
        """
        import asyncio

        seen = []

        async def test_first():
            seen.append(asyncio.get_running_loop())
            assert not seen[0].get_debug()

        async def test_second():
            assert seen[0].is_closed()
        """,
    )
    result.assert_outcomes(passed=2)


def test_an_async_test_that_hangs_fails(pytester: pytest.Pytester) -> None:
    """It waits for an event that is never set; its limit is as short as a busy machine allows."""
    result = outcomes(
        pytester,
        """
        import asyncio, pytest

        @pytest.mark.seconds(0.01)
        async def test_hangs():
            await asyncio.Event().wait()
        """,
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*still running after 0.04 s*"])


def test_a_timeout_of_the_test_itself_is_not_taken_for_the_limit(pytester: pytest.Pytester) -> None:
    """A `TimeoutError` that the test raises stays what it is."""
    result = outcomes(pytester, "async def test_own():\n    raise TimeoutError('mine')")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*TimeoutError: mine*"])


def test_a_coroutine_that_nobody_awaits_fails_the_test(pytester: pytest.Pytester) -> None:
    """Warnings are errors, also those that Python only prints."""
    result = outcomes(
        pytester,
        """
        async def work():
            pass

        async def test_forgets():
            work()
        """,
    )
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*was never awaited*"])
