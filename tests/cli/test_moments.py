"""Times as operators write them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from sidecar.cli.parameters.moments import moment_of

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("10m", NOW - timedelta(minutes=10)),
        ("10m ago", NOW - timedelta(minutes=10)),
        (" 2 h ago ", NOW - timedelta(hours=2)),
        (" Now", NOW),
        ("3d", NOW - timedelta(days=3)),
        ("90s", NOW - timedelta(seconds=90)),
        ("2026-11-22T14:05", datetime(2026, 11, 22, 14, 5, tzinfo=UTC)),
        ("2026-11-22T14:05+01:00", datetime(2026, 11, 22, 14, 5, tzinfo=timezone(timedelta(hours=1)))),
    ],
)
def test_a_time_is_a_length_back_from_now_or_iso_8601(text: str, moment: datetime) -> None:
    """Without a zone it is UTC."""
    assert moment_of(text, NOW) == moment


@pytest.mark.parametrize(
    "text", ["", "0m", "10", "m", "yesterday", "10m later", "99999d", "-5m", "2026-13-01", "9" * 50]
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    """What was written is in the message, cut short."""
    with pytest.raises(ValueError, match="write 10m, 2h ago"):
        moment_of(text, datetime(200, 1, 1, tzinfo=UTC))
