"""What `docs/webhooks.md` shows is what the sidecar sends, and its receiver works."""

import asyncio
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from plugins.audit_webhook.tests.receiver import FIRST, SECOND, secrets_file, settings_for
from sidecar.policy.audit import SinkUnavailable
from sidecar_audit_webhook import WebhookSink
from sidecar_audit_webhook.events import TYPES, body_of
from sidecar_audit_webhook.settings import SCHEMA
from sidecar_conformance.audit_sink import an_event

PAGE: Final = (Path(__file__).parents[3] / "docs" / "webhooks.md").read_text("utf-8")


def block(kind: str) -> str:
    """Return the only block of a language."""
    (found,) = re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


@contextmanager
def receiver_of_the_page(secrets: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Run the receiver of the page with another file of secrets; yield its address and what it has stored."""
    names: dict[str, Any] = {"__name__": "docs_webhooks"}
    exec(compile(block("python"), "docs/webhooks.md", "exec"), names)
    stored: list[dict[str, Any]] = []
    names.update(SECRETS=secrets, store=stored.append)
    names["Receiver"].log_message = lambda *_: None
    server = ThreadingHTTPServer(("127.0.0.1", 0), names["Receiver"])
    server.daemon_threads = True
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", stored
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


async def test_the_receiver_of_the_page_stores_each_event_once(tmp_path: Path) -> None:
    """The real sink sends: new, again, with another secret, with an old time."""
    (tmp_path / "receiver").mkdir()
    (tmp_path / "other").mkdir()
    secrets_file(tmp_path / "other", SECOND)
    with receiver_of_the_page(secrets_file(tmp_path / "receiver", FIRST)) as (url, stored):
        clock = [time.time()]
        sink = WebhookSink(settings_for(url, tmp_path), lambda: clock[0])
        stranger = WebhookSink(settings_for(url, tmp_path / "other"))
        async with asyncio.timeout(10):
            await sink.take([an_event(1), an_event(2)])
            await sink.take([an_event(2), an_event(3)])
            clock[0] -= 400
            for wrong in (stranger, sink):
                with pytest.raises(SinkUnavailable, match="401"):
                    await wrong.take([an_event(4)])
            await asyncio.gather(sink.close(), stranger.close())
    assert [event["data"]["request_id"] for event in stored] == ["request-1", "request-2", "request-3"]


def test_the_event_of_the_page_is_what_is_sent() -> None:
    """The same members in the same order, and in `data` those that every event has."""
    shown = json.loads(block("json"))
    sent = json.loads(body_of(an_event(1), "urn:example:a"))
    assert list(shown) == list(sent)
    assert sorted(shown["data"]) == sorted(sent["data"])
    assert shown["type"] in TYPES


def test_the_page_names_each_setting_and_only_types_that_there_are() -> None:
    """In its tables."""
    rows = {name for row in re.findall(r"^\| (`[^|]+) \|", PAGE, re.MULTILINE) for name in re.findall("`([^`]+)`", row)}
    assert set(SCHEMA["properties"]) <= rows
    types = {name for name in rows if name.startswith("subagent.") and "<" not in name}
    assert types
    assert types <= TYPES
