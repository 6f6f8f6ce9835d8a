"""Structured logging: one line per event on standard error, as text for people or JSON for machines.

The event loop only puts records into a bounded queue; a thread writes them. If the reader of standard error stops
reading, lines are dropped and counted, but no turn is affected.
"""

import json
import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO

from sidecar.observability.log_thread import LogThread, LossyQueue
from sidecar.observability.redaction import Redactor
from sidecar.operations.trace_context import LOGGED, NO_TRACE, TraceContext

LONGEST_LINE: Final = 64 * 1024
"""The most characters of a line. Log collectors split longer lines, which breaks JSON."""
CHATTY: Final = ("httpx", "httpcore", "hpack", "asyncio")
"""Libraries whose INFO lines would repeat the sidecar's lines, with addresses in them."""
ALWAYS: Final = "sidecar.always"
"""A logger whose lines no level silences and no limit omits: routing decisions and security incidents."""


class StructuredLog:
    """Writes events with fields.

    Args:
        name: of the logger.
    """

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def info(self, event: str, text: str, **fields: Any) -> None:
        """Log an event."""
        self._write(logging.INFO, event, text, fields)

    def prompt(self, event: str, text: str, **fields: Any) -> None:
        """Log an event that other processes wait for; the thread writes it immediately."""
        self._write(logging.INFO, event, text, fields, prompt=True)

    def warning(self, event: str, text: str, **fields: Any) -> None:
        """Write a warning, for a person to examine later."""
        self._write(logging.WARNING, event, text, fields)

    def error(self, event: str, text: str, error: BaseException | None = None, **fields: Any) -> None:
        """Write an error, for a person to examine now, with the traceback if there is one."""
        self._write(logging.ERROR, event, text, fields, error)

    def _write(
        self,
        level: int,
        event: str,
        text: str,
        fields: dict[str, Any],
        error: BaseException | None = None,
        *,
        prompt: bool = False,
    ) -> None:
        # Before the record is made: most calls are silenced by the level in tests and in quiet deployments.
        if self._logger.isEnabledFor(level):
            raised = None if error is None else (type(error), error, error.__traceback__)
            # Not through `Logger.log`, which searches the stack for file and line; our lines do not contain them.
            record = logging.LogRecord(self._logger.name, level, "", 0, text, (), raised)
            # Errors never wait for further lines: the process may be about to end.
            record.event, record.fields, record.prompt = event, fields, prompt or level >= logging.ERROR
            record.of_trace = LOGGED.get()
            self._logger.handle(record)


class LineFormatter(logging.Formatter):
    """Formats a line and redacts secrets in the whole line."""

    def __init__(self, kind: Literal["text", "json"], redactor: Redactor) -> None:
        super().__init__()
        self._write = _as_json if kind == "json" else _as_text
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        """Return one line. In text format, a traceback follows on further lines."""
        # The whole line and not single fields: a secret may be part of a text, a field or a traceback.
        line = self._redactor.clean(self._write(record))
        return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"


@contextmanager
def logging_to(out: TextIO, kind: Literal["text", "json"], level: str, redactor: Redactor) -> Iterator[LossyQueue]:
    """Log the whole process to `out` while the context is open; flush at its end."""
    queue = LossyQueue(ALWAYS)
    thread = LogThread(queue, out, LineFormatter(kind, redactor).format)
    # The root logger, so that lines of libraries and plugins take the same way.
    root, always = logging.getLogger(), logging.getLogger(ALWAYS)
    before = (root.level, root.handlers[:], logging.raiseExceptions)
    # Otherwise `logging` would print a traceback for each line that it cannot write to a closed standard error.
    logging.raiseExceptions = False
    # The only handler, so that no other handler blocks the loop by writing itself.
    root.handlers[:] = [queue]
    root.setLevel(level.upper())
    always.setLevel(logging.INFO)
    for name in CHATTY:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    thread.start()
    try:
        yield queue
    finally:
        thread.stop()
        root.level, root.handlers[:], logging.raiseExceptions = before


def standard_error() -> TextIO:
    """Return the output of the log."""
    return sys.stderr


def _as_json(record: logging.LogRecord) -> str:
    line: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "event": getattr(record, "event", record.name),
        "message": record.getMessage(),
        **_fields(record),
    }
    if record.exc_info:
        line["traceback"] = "".join(traceback.format_exception(*record.exc_info))
    # `default`: a field may be any object, and a line must never fail because of it.
    return json.dumps(line, default=str, ensure_ascii=False)


def _as_text(record: logging.LogRecord) -> str:
    when = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
    fields = "".join(f" {name}={_short(value)}" for name, value in _fields(record).items())
    event = getattr(record, "event", record.name)
    # A message may quote text of a user: a line break in it would look like another line of the log.
    message = "".join(sign if sign.isprintable() else " " for sign in record.getMessage())
    line = f"{when} {record.levelname:<7} {event}: {message}{fields}"
    if record.exc_info:
        line += "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip()
    return line


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of a line, with its trace. The line of a span has the ids of that span in its fields."""
    trace: TraceContext = getattr(record, "of_trace", NO_TRACE)
    fields: dict[str, Any] = getattr(record, "fields", {})
    # A field must not occur twice in a line.
    if not trace.traceparent or "trace_id" in fields:
        return fields
    return {**fields, "trace_id": trace.trace_id, "span_id": trace.span_id}


def _short(value: Any) -> str:
    # Everything else is quoted as JSON, so that the fields of a line stay separable.
    return value if isinstance(value, str) and value.isalnum() else json.dumps(value, default=str, ensure_ascii=False)
