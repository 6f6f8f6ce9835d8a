"""What flags of Unleash come to, and which answers are none."""

import json
from typing import Any

import pytest

from plugins.flags_unleash.tests.unleash import ENVIRONMENT, share
from sidecar_flags_unleash.settings import settings_from
from sidecar_flags_unleash.wire import NotUnderstood, features_in, report_of

NAME = "ai_assistant_subagent_shop"
CONSTRAINT = {"contextName": "userId", "operator": "IN", "values": ["ada"]}


def feature(**fields: Any) -> dict[str, Any]:
    """Return a flag as Unleash shows it: on for everybody."""
    return {"name": NAME, "enabled": True, "strategies": [share(100)], "project": "default", **fields}


def body(*features: dict[str, Any], environment: str = ENVIRONMENT) -> bytes:
    """Return an answer."""
    return json.dumps({"version": 2, "features": features, "query": {"environment": environment}}).encode()


@pytest.mark.parametrize(
    ("flag", "read"),
    [
        (feature(), 10_000),
        (feature(strategies=[]), 10_000),
        (feature(strategies=[{"name": "default"}]), 10_000),
        (feature(enabled=False), 0),
        (feature(strategies=[share(0)]), 0),
        (feature(strategies=[share(25)]), 2500),
        (feature(strategies=[share(25), share(40)]), 4000),
        (feature(strategies=[{"name": "gradualRolloutUserId", "parameters": {"percentage": 5}}]), 500),
        (feature(strategies=[share(25), share(100, constraints=[CONSTRAINT])]), 2500),
        (feature(strategies=[share(100, constraints=[CONSTRAINT])]), None),
        (feature(strategies=[share(100, segments=[1])]), None),
        (feature(strategies=[share(0), share(100, segments=[1])]), None),
        (feature(strategies=[{"name": "userWithId", "parameters": {"userIds": "ada"}}]), None),
        (feature(strategies=[{"name": "flexibleRollout", "parameters": {}}]), None),
        (feature(strategies=[{"name": "flexibleRollout", "parameters": {"rollout": "101"}}]), None),
        (feature(strategies=[{"name": "flexibleRollout", "parameters": {"rollout": "-5"}}]), None),
        (feature(dependencies=[{"feature": "parent"}]), None),
    ],
)
def test_a_percentage_is_read_and_what_decides_by_user_is_unclear(flag: dict[str, Any], read: int | None) -> None:
    """Who is inside a share is for the sidecar's buckets to say; a strategy that names users tells nothing else."""
    report = report_of(features_in(body(flag), ENVIRONMENT))

    assert (NAME in report.on) == bool(read)
    assert (NAME in report.off) == (read == 0)
    assert (NAME in report.unclear) == (read is None)
    assert report.shares == ({NAME: read} if read and read < 10_000 else {})


@pytest.mark.parametrize(
    "lie",
    [
        body(),
        body(feature(), environment="development"),
        body(feature(), feature(enabled=False)),
        body(feature(enabled="yes")),
        body({"name": NAME}),
        body(feature(strategies=None)),
        b'{"features": []}',
        b"[]",
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_an_answer_that_is_none_turns_nothing_off(lie: bytes) -> None:
    """An empty list is what a token without a project is shown; taken for "all off", it would kill."""
    with pytest.raises(NotUnderstood):
        features_in(lie, ENVIRONMENT)


def test_the_revision_is_that_of_the_states() -> None:
    """A changed description is no news; a share is."""
    told = [report_of(features_in(body(flag), ENVIRONMENT)) for flag in (feature(), feature(description="new"))]
    other = report_of(features_in(body(feature(strategies=[share(25)])), ENVIRONMENT))

    assert told[0].revision == told[1].revision != other.revision


@pytest.mark.parametrize(
    "url", ["http://unleash.example.com", "ftp://localhost", "https://", "https://ada:pw@example.com", "https://a?b"]
)
def test_an_address_that_would_give_the_token_away_stops_the_start(url: str) -> None:
    """Who can change the answer can switch flags."""
    with pytest.raises(ValueError, match="url"):
        settings_from({"url": url, "environment": ENVIRONMENT, "token_file": "/run/secrets/unleash"})
