"""HDR histogram logs, which HistogramLogAnalyzer, HdrHistogram's plotter and others read."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogWriter

from subagents_loadgen.histogram import Histogram
from subagents_loadgen.report import MICROSECONDS, Report, latencies_of

HIGHEST: Final = 24 * 3600 * 1_000_000
"""Maximum latency, in microseconds: one day."""
DIGITS: Final = 3
TO_SECONDS: Final = 1_000_000.0


def write_logs(report: Report, folder: Path) -> list[Path]:
    """Write one log for each latency, in microseconds; `whole_since_due` has an interval for each second.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, latencies in latencies_of(report.tally):
        intervals: Iterable[tuple[float, float, Histogram]] = [(0.0, report.seconds, latencies)]
        if latencies is report.tally.whole:
            intervals = [(float(at), at + 1.0, one.latencies) for at, one in sorted(report.tally.timeline.items())]
        path = folder / f"{name.replace(',', '').replace(' ', '_')}.hlog"
        with path.open("w", encoding="utf-8") as file:
            _write(HistogramLogWriter(file), intervals)
        written.append(path)
    return written


def _write(log: HistogramLogWriter, intervals: Iterable[tuple[float, float, Histogram]]) -> None:
    log.output_log_format_version()
    log.output_comment("[latencies in microseconds; times since the measured part began]")
    log.output_legend()
    for begin, end, latencies in intervals:
        hdr = HdrHistogram(1, HIGHEST, DIGITS)
        for seconds, count in latencies.buckets():
            hdr.record_value(min(HIGHEST, max(1, round(seconds * MICROSECONDS))), count)
        hdr.set_start_time_stamp(begin * 1000)
        hdr.set_end_time_stamp(end * 1000)
        log.output_interval_histogram(hdr, max_value_unit_ratio=TO_SECONDS)
