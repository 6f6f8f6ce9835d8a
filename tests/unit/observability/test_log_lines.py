"""What gets into the log, in which form, and what never does."""

import io
import json
import logging
import threading
from typing import Final, Literal

import pytest

from sidecar.core.binding.surface_token import SigningKeys
from sidecar.observability.log_thread import LogThread, LossyQueue
from sidecar.observability.logging import ALWAYS, LineFormatter, StructuredLog, logging_to
from sidecar.observability.readiness import Readiness
from sidecar.observability.redaction import Redactor
from tests.support.call_counting import CallCounter

HANGING_SECONDS: Final = 30
INFO: Final = {"levelno": logging.INFO, "levelname": "INFO"}


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
        front.handle(said("x"))
    assert front.lost == 3


class CountedOutput(io.StringIO):
    """Counts how often it was written to."""

    def __init__(self) -> None:
        super().__init__()
        self.writes, self.wrote = 0, threading.Semaphore(0)

    def write(self, text: str) -> int:
        """Count."""
        self.writes += 1
        length = super().write(text)
        self.wrote.release()
        return length


class CountedNews(threading.Event):
    """Counts how often the thread was woken."""

    sets = 0

    def set(self) -> None:
        """Count."""
        self.sets += 1
        super().set()


class Period(threading.Event):
    """A period that ends when the test says so, or an error does."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0
        self._began, self._over = threading.Semaphore(0), threading.Semaphore(0)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for `end`, or `set`; `timeout` never comes."""
        self.waits += 1
        self._began.release()
        self._over.acquire()
        return self.is_set()

    def set(self) -> None:
        """End it at once."""
        super().set()
        self._over.release()

    def began(self) -> None:
        """Return when the thread waits for the end of a period."""
        assert self._began.acquire(timeout=HANGING_SECONDS)

    def end(self) -> None:
        """End it."""
        self._over.release()


def said(text: str, level: int = logging.INFO) -> logging.LogRecord:
    """Return a record."""
    return logging.LogRecord("test", level, "", 0, text, (), None)


class Writing:
    """A log whose periods the test ends."""

    def __init__(self) -> None:
        self.out, self.front, self.period, self.news = CountedOutput(), LossyQueue(ALWAYS), Period(), CountedNews()
        self.front.urgent, self.front.news = self.period, self.news
        self._thread = LogThread(self.front, self.out, logging.LogRecord.getMessage)
        self._thread.start()

    def say(self, *texts: str) -> None:
        """Log lines that are no errors."""
        for text in texts:
            self.front.handle(said(text))

    def stop(self) -> list[str]:
        """Stop; return what was written."""
        self._thread.stop()
        return self.out.getvalue().splitlines()


def test_as_long_as_lines_keep_coming_nothing_wakes_the_thread() -> None:
    """The first line does; then it looks once in each period, and writes once what came."""
    log = Writing()
    log.say("0.0")
    log.period.began()
    log.say("0.1", "0.2")
    for number in range(1, 20):
        log.period.end()
        log.period.began()  # so what came before is written
        log.say(*(f"{number}.{line}" for line in range(3)))
    assert (log.news.sets, log.out.writes, log.period.waits) == (1, 19, 20)
    assert log.stop() == [f"{number}.{line}" for number in range(20) for line in range(3)]


def test_after_a_period_with_one_line_the_thread_sleeps_until_the_next() -> None:
    """Looking again would find nothing most of the time."""
    log = Writing()
    for number in range(1, 5):
        log.say("a line")
        log.period.began()
        log.period.end()
        assert log.out.wrote.acquire(timeout=HANGING_SECONDS)
        assert (log.news.sets, log.period.waits) == (number, number)
    log.stop()


def test_an_error_is_written_at_once_with_what_came_before() -> None:
    """A process that is killed right after it has said why: nothing ends the period but the error."""
    log = Writing()
    log.say("before")
    log.period.began()
    log.front.handle(said("it failed", logging.ERROR))
    assert log.out.wrote.acquire(timeout=HANGING_SECONDS)
    assert log.out.getvalue() == "before\nit failed\n"
    log.stop()


def test_what_another_process_waits_for_is_written_at_once() -> None:
    """A start that is ready is no error."""
    out, events = io.StringIO(), StructuredLog("test")
    with logging_to(out, "json", "info", Redactor()) as front:
        front.urgent = period = Period()
        events.info("test.event", "something happened")
        assert not period.is_set()
        events.prompt("test.listening", "it listens")
        assert period.is_set()


def test_a_line_costs_no_look_at_the_stack() -> None:
    """Finding the file and the line that logs costs more than all the rest, and no line of ours shows it."""
    with logging_to(io.StringIO(), "json", "info", Redactor()), CallCounter().counting() as counter:
        StructuredLog("test").info("test.event", "something happened", slot="shop")
    called = {each.function for each in counter.counted}
    assert "StructuredLog.info" in called
    assert called.isdisjoint({"Logger.findCaller", "Logger.makeRecord"})


def test_lines_of_one_moment_cost_one_wake_up_and_one_write_and_a_stop_loses_none() -> None:
    """What a loop says in one pass; one line that cannot be made costs itself."""
    out, front = CountedOutput(), LossyQueue(ALWAYS)
    front.news = news = CountedNews()
    for number in range(300):
        front.emit(logging.makeLogRecord({"msg": "line %d", "args": (number if number != 7 else "seven",), **INFO}))
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
        front.emit(said(text))
    thread.start()
    thread.stop()
    assert (raw.getvalue().decode("ascii").splitlines(), front.lost) == (["before", "after"], 1)


def test_a_closed_output_stops_nothing() -> None:
    """Standard error may be gone; the lines count as lost."""
    out, front = io.StringIO(), LossyQueue(ALWAYS)
    out.close()
    thread = LogThread(front, out, logging.LogRecord.getMessage)
    thread.start()
    front.emit(said("x"))
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
    assert readiness.detail() == {
        "ready": False,
        "against": {"definitions": "none"},
        "attention": (),
        "more": {"a": 1},
    }
