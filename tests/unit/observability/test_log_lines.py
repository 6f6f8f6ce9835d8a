"""What gets into the log, in which form, and what never does."""

import io
import json
import logging
import threading
from typing import Literal

import pytest

from sidecar.core.binding.surface_token import SigningKeys
from sidecar.observability.log_thread import LogThread, LossyQueue
from sidecar.observability.logging import ALWAYS, LineFormatter, StructuredLog, logging_to
from sidecar.observability.readiness import Readiness
from sidecar.observability.redaction import Redactor


def lines(kind: Literal["text", "json"], level: str, redactor: Redactor | None = None) -> str:
    """Log one of each kind; return what was written."""
    out = io.StringIO()
    with logging_to(out, kind, level, redactor or Redactor()):
        events = StructuredLog("test")
        events.info("test.event", "something happened", slot="shop", calls=["a", "b"])
        StructuredLog(ALWAYS).info("routing.decision", "the turn has ended")
        try:
            raise ValueError("canary-secret in a traceback")
        except ValueError as error:
            events.error("test.failed", "it failed", error)
    return out.getvalue()


def test_json_lines_hold_event_fields_and_traceback() -> None:
    """One object a line."""
    objects = [json.loads(line) for line in lines("json", "info").splitlines()]
    assert [one["event"] for one in objects] == ["test.event", "routing.decision", "test.failed"]
    assert (objects[0]["level"], objects[0]["slot"], objects[0]["calls"]) == ("info", "shop", ["a", "b"])
    assert "ValueError: canary-secret" in objects[2]["traceback"]


def test_text_lines_are_for_people() -> None:
    """Time, level, event, sentence, fields."""
    first = lines("text", "info").splitlines()[0]
    assert first[12:] == ' INFO    test.event: something happened slot=shop calls=["a", "b"]'


def test_a_message_cannot_forge_a_line() -> None:
    """A line break in a text from outside becomes a space."""
    out = io.StringIO()
    with logging_to(out, "text", "info", Redactor()):
        StructuredLog("test").info("test.event", "first\n00:00:00 INFO forged", detail="a\nb")
    assert len(out.getvalue().splitlines()) == 1


def test_a_quiet_log_still_has_routing_decisions() -> None:
    """Level error: information is left out, decisions are not."""
    assert [json.loads(line)["event"] for line in lines("json", "error").splitlines()] == [
        "routing.decision",
        "test.failed",
    ]


def test_known_secrets_are_taken_out_of_everything() -> None:
    """Out of the traceback too; the longest first, so that no rest of one stays."""
    redactor = Redactor()
    redactor.learn(["canary-secret", "canary-secret in a"])
    for text in (lines("json", "info", redactor), lines("text", "info", redactor)):
        assert "canary" not in text
        assert "[redacted] traceback" in text


def test_tokens_are_taken_out_although_nobody_knows_them() -> None:
    """Surface tokens, by their form; bearer tokens of others."""
    token = SigningKeys({"k1": b"x" * 32}, "k1").sign("surface", b"some claims, long enough")
    cleaned = Redactor().clean(f"failed with {token}, authorization: Bearer abcdefgh12345 and v1.2.3 of something")
    assert cleaned == "failed with [redacted], authorization: Bearer [redacted] and v1.2.3 of something"


def test_a_plugins_secrets_are_known_by_the_names_of_its_settings() -> None:
    """At any depth; other values stay readable, and so do words as short as a syllable."""
    redactor = Redactor()
    redactor.learn_settings(
        {"unleash": {"url": "http://flags", "api_key": "canary-1", "auth": {"tokens": ["canary-2"]}}}
    )
    redactor.learn(["on"])
    assert redactor.clean("canary-1 canary-2 http://flags on") == "[redacted] [redacted] http://flags on"


def test_lines_that_nobody_reads_are_counted() -> None:
    """The queue is bounded; the caller never waits."""
    front = LossyQueue(ALWAYS, most=2)
    for _ in range(5):
        front.emit(logging.makeLogRecord({"msg": "x"}))
    assert front.lost == 3


class CountedOutput(io.StringIO):
    """Counts how often it was written to."""

    writes = 0

    def write(self, text: str) -> int:
        """Count."""
        self.writes += 1
        return super().write(text)


class CountedNews(threading.Event):
    """Counts how often the thread was woken."""

    sets = 0

    def set(self) -> None:
        """Count."""
        self.sets += 1
        super().set()


def test_lines_of_one_moment_cost_one_wake_up_and_one_write_and_a_stop_loses_none() -> None:
    """What a loop says in one pass; one line that cannot be made costs itself."""
    out, front = CountedOutput(), LossyQueue(ALWAYS)
    front.news = news = CountedNews()
    for number in range(300):
        front.emit(logging.makeLogRecord({"msg": "line %d", "args": (number if number != 7 else "seven",)}))
    assert news.sets == 1
    thread = LogThread(front, out, logging.LogRecord.getMessage)
    thread.start()
    thread.stop()
    assert out.getvalue().splitlines() == [f"line {number}" for number in range(300) if number != 7]
    assert (out.writes, front.lost) == (1, 1)


def test_a_line_that_the_output_cannot_encode_costs_only_itself() -> None:
    """An output refuses what it is given as a whole; the other lines of the moment are written."""
    raw, front = io.BytesIO(), LossyQueue(ALWAYS)
    thread = LogThread(front, io.TextIOWrapper(raw, encoding="ascii"), logging.LogRecord.getMessage)
    for text in ("before", "caf\u00e9", "after"):
        front.emit(logging.makeLogRecord({"msg": text}))
    thread.start()
    thread.stop()
    assert (raw.getvalue().decode("ascii").splitlines(), front.lost) == (["before", "after"], 1)


def test_a_closed_output_stops_nothing() -> None:
    """Standard error may be gone; the lines count as lost."""
    out, front = io.StringIO(), LossyQueue(ALWAYS)
    out.close()
    thread = LogThread(front, out, logging.LogRecord.getMessage)
    thread.start()
    front.emit(logging.makeLogRecord({"msg": "x"}))
    thread.stop()
    assert front.lost == 1


def test_a_line_is_bounded() -> None:
    """Whatever somebody puts into it."""
    record = logging.makeLogRecord({"msg": "x" * 1_000_000, "levelname": "INFO"})
    assert len(LineFormatter("text", Redactor()).format(record)) < 66_000


def test_readiness_says_what_stands_against_it(caplog: pytest.LogCaptureFixture) -> None:
    """Told once for each change, however many reasons come and go."""
    told: list[bool] = []
    readiness = Readiness(told.append)
    readiness.section("more", lambda: {"a": 1})

    readiness.clear("start")
    readiness.block("loop flags", "down")
    readiness.block("definitions", "none")
    readiness.clear("loop flags")

    assert told == [True, False]
    assert readiness.detail() == {"ready": False, "against": {"definitions": "none"}, "more": {"a": 1}}
