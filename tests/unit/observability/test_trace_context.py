"""Which trace contexts are believed, and what is passed on of them."""

import pytest

from sidecar.operations.trace_context import NO_TRACE, trace_context

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(("flags", "sampled"), [("00", False), ("01", True), ("02", False), ("03", True), ("ff", True)])
def test_the_last_bit_says_whether_it_is_sampled(flags: str, sampled: bool) -> None:
    """Others are for versions to come."""
    given = trace_context(f"00-{TRACE}-{SPAN}-{flags}", "")
    assert given.sampled is sampled
    assert given.headers == {"traceparent": f"00-{TRACE}-{SPAN}-{flags}"}


@pytest.mark.parametrize(
    "wrong",
    [
        *("", "00", GOOD.upper(), f"{GOOD}\n", f" {GOOD}", f"ff-{TRACE}-{SPAN}-01", f"00-{'0' * 32}-{SPAN}-01"),
        *(
            f"00-{TRACE}-{'0' * 16}-01",
            f"00-{TRACE}-{SPAN}-1",
            f"00-{TRACE}-{SPAN}-01-more",
            GOOD.replace("4", "\u0664"),
        ),
    ],
)
def test_what_is_not_well_formed_counts_as_not_sent(wrong: str) -> None:
    """Its state neither."""
    assert trace_context(wrong, "vendor=1") == NO_TRACE
    assert NO_TRACE.headers == {}
    assert not NO_TRACE.sampled


@pytest.mark.parametrize(
    ("state", "kept"),
    [("a=1,b=2", True), ("", False), ("a=1\r\nx-evil: 1", False), ("\u00fc=1", False), ("a" * 513, False)],
)
def test_a_state_is_passed_on_as_it_came_or_not_at_all(state: str, kept: bool) -> None:
    """It becomes a header."""
    assert trace_context(GOOD, state).headers == {"traceparent": GOOD} | ({"tracestate": state} if kept else {})
