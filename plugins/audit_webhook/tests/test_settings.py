"""Settings that cannot work prevent the start and say why, without a secret; signatures are those of the convention."""

import logging
from pathlib import Path
from typing import Any

import pytest

from plugins.audit_webhook.tests.receiver import FIRST, SECOND, SOURCE, secrets_file
from sidecar.policy.factory import make_audit_sink
from sidecar.policy.problems import PluginProblem
from sidecar_audit_webhook.plugin import sidecar_audit_sinks
from sidecar_audit_webhook.signing import Secrets

(SPEC,) = sidecar_audit_sinks()


def test_the_signature_is_that_of_the_vector_of_the_convention(tmp_path: Path) -> None:
    """The example that libraries of the convention test themselves with."""
    secrets = Secrets(secrets_file(tmp_path, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), logging.warning)
    found = secrets.signature("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize(
    ("secrets", "problem"),
    [
        ((), "must hold one or two secrets, one a line"),
        ((FIRST, SECOND, FIRST), "must hold one or two secrets, one a line"),
        ((FIRST, "hunter2"), "line 2 of {file} is no secret"),
        (("whsec_aGVsbG8=",), "line 1 of {file} is no secret"),
        ((FIRST.removeprefix("whsec_"),), "line 1 of {file} is no secret"),
    ],
)
def test_a_file_without_usable_secrets_prevents_the_start(
    tmp_path: Path, secrets: tuple[str, ...], problem: str
) -> None:
    """None, too many, too short, or of another form; the message has nothing of them."""
    file = secrets_file(tmp_path, *secrets)
    with pytest.raises(PluginProblem) as refused:
        make_audit_sink(SPEC, {"url": "https://a.example", "source": SOURCE, "secret_file": str(file)})
    assert problem.format(file=file) in str(refused.value)
    assert not [each for each in secrets if each in str(refused.value)]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"url": "http://hooks.example.com"}, "url must be https:// beyond this machine"),
        ({"url": "https://ada:s3cret@hooks.example.com"}, "url must hold no user name, password or fragment"),
        ({"source": "two words"}, "audit_sinks.webhook.source"),
        ({"types": ["subagent.rollout.event.kiled"]}, "no event has the type `subagent.rollout.event.kiled`"),
        ({"types": ["killed*"]}, "no event has the type `killed*`"),
        ({"types": []}, "audit_sinks.webhook.types"),
        ({"timeout_seconds": 10}, "audit_sinks.webhook.timeout_seconds"),
        ({"client_key_file": "/key"}, "client_certificate_file and client_key_file belong together"),
    ],
)
def test_settings_that_cannot_work_prevent_the_start(tmp_path: Path, settings: dict[str, Any], problem: str) -> None:
    """With a message that names the setting."""
    good = {"url": "https://a.example", "source": SOURCE, "secret_file": str(secrets_file(tmp_path, FIRST))}
    make_audit_sink(SPEC, good)
    with pytest.raises(PluginProblem) as refused:
        make_audit_sink(SPEC, {**good, **settings})
    assert problem in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_a_secret_that_everybody_may_read_prevents_the_start(tmp_path: Path) -> None:
    """As with the keys of certificates."""
    file = secrets_file(tmp_path, FIRST)
    file.chmod(0o444)
    with pytest.raises(PluginProblem, match="chmod 0400 it"):
        make_audit_sink(SPEC, {"url": "https://a.example", "source": SOURCE, "secret_file": str(file)})


def test_a_file_that_is_replaced_by_garbage_changes_nothing(tmp_path: Path) -> None:
    """The former secrets stay in use, and the log says so once."""
    told: list[str] = []
    clock = [0.0]
    file = secrets_file(tmp_path, FIRST)
    secrets = Secrets(file, told.append, lambda: clock[0])
    before = secrets.signature("evt_1", 1, b"{}")
    secrets_file(tmp_path, "garbage")
    for _ in range(2):
        clock[0] += 2
        assert secrets.signature("evt_1", 1, b"{}") == before
    assert told == [
        f"line 1 of {file} is no secret: whsec_ and 24 to 64 bytes in base64; the former secrets stay in use"
    ]
