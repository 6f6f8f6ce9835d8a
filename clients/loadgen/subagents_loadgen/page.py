"""The report as one HTML page: no script, nothing loaded from anywhere, everything that was said escaped."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

from subagents_loadgen.plots import Line, plot

STYLE: Final = """
:root{color-scheme:light dark;--ink:light-dark(#1b1f24,#e6e8eb);--soft:light-dark(#5b6470,#9aa4b0);
--line:light-dark(#d9dee4,#363c44);--good:light-dark(#2f7d4f,#5fbf85);--bad:light-dark(#b3382c,#f08a7d);
--back:light-dark(#fff,#15181c);--one:light-dark(#2563a8,#6fb1f2);--two:light-dark(#b06a12,#e8b060)}
*{box-sizing:border-box}body{margin:2rem auto;max-width:64rem;padding:0 1rem;background:var(--back);color:var(--ink);
font:15px/1.5 system-ui,sans-serif}h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2.2rem 0 .6rem}
p.sub{color:var(--soft);margin:.2rem 0 1rem}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .7rem;text-align:right;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left}th{font-weight:600;color:var(--soft)}
.bad{color:var(--bad)}.good{color:var(--good)}.wide{overflow-x:auto}svg{width:100%;height:auto}
svg text{fill:var(--soft);font:12px system-ui,sans-serif}svg path{fill:none;stroke-width:1.8}
svg .grid{stroke:var(--line);stroke-width:1}.one{stroke:var(--one)}.two{stroke:var(--two)}.bad-line{stroke:var(--bad)}
.old{stroke-dasharray:5 4;opacity:.75}.note{border-left:3px solid var(--bad);padding:.1rem .8rem}
"""
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
COLUMNS: Final = ("count", "mean", "p50", "p90", "p99", "p99.9", "max")
THRESHOLD_OF_NOTE: Final = 0.1
"""A latency that differs by more than a tenth between two runs is coloured."""
Json = Mapping[str, Any]


def page_of(run: Json, earlier: Json | None = None) -> str:
    """Return the page.

    Args:
        run: as `as_json` gives it.
        earlier: another run to compare with; its lines are dashed.
    """
    done = run["operations"]
    title = f"Load on {', '.join(run['run']['targets'])}"
    body = [
        f"<h1>{escape(run['run']['scenario'])}</h1>",
        f"<p class=sub>{escape(title)}; {done['measured']:,} operations in {done['seconds']:.1f} s, "
        f"{done['per_second_without_error']:.1f}/s without error, {done['failed']:,} failed, "
        f"{done['unsent']:,} unsent</p>",
        *(f"<p class=note>{escape(one)}</p>" for one in run["warnings"]),
        *_counts("Violations of the contract", run["violations"]),
        *_thresholds(run["thresholds"]),
        *(_comparison(run, earlier) if earlier else []),
        "<h2>Latency by percentile</h2>",
        plot(_curves(run, earlier), "percentile", "ms", ticks=("50", "90", "99", "99.9", "99.99")),
        "<h2>Throughput</h2>",
        plot(_throughput(run, earlier), "seconds", "operations / s"),
        "<h2>Latency over time</h2>",
        plot(_over_time(run), "seconds", "ms"),
        "<h2>Latencies in ms</h2>",
        _latencies(run["latency_us"]),
        "<h2>By kind of turn, in ms</h2>",
        _latencies(run["by_turn_us"]),
        "<h2>By target, in ms</h2>",
        _latencies(run["by_target_us"]),
        *_counts("Refusals and failures of RPCs, by reason", run["errors"]),
        *_counts("Outcomes of calls, by reason", run["outcomes"]),
        "<h2>Stages</h2>",
        _rows([_stage(one) for one in run["run"]["stages"]], ("stage", "load", "seconds")),
    ]
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name=viewport content="width=device-width"><title>{escape(title)}</title><style>{STYLE}</style>'
        f"<body>{''.join(body)}</body></html>\n"
    )


def _curves(run: Json, earlier: Json | None) -> list[Line]:
    def curve(name: str, kind: str, of: Json) -> Line:
        # On this axis every further nine takes the same room, as in the plots of HdrHistogram.
        return Line(name, kind, [(percent, value / 1000) for percent, value in of["percentiles_us"]], nines=True)

    return [curve("this run", "one", run), *([curve("earlier", "two old", earlier)] if earlier else [])]


def _throughput(run: Json, earlier: Json | None) -> list[Line]:
    def line(name: str, kind: str, of: Json, key: str) -> Line:
        return Line(name, kind, [(one["second"], one[key]) for one in of["timeline"]])

    lines = [line("ended", "one", run, "ended"), line("failed", "bad-line", run, "failed")]
    return [*lines, *([line("earlier", "two old", earlier, "ended")] if earlier else [])]


def _over_time(run: Json) -> list[Line]:
    kinds = (("p50", "one"), ("p99", "two"), ("max", "bad-line"))
    return [
        Line(key, kind, [(one["second"], one[key] / 1000) for one in run["timeline"] if key in one])
        for key, kind in kinds
    ]


def _thresholds(verdicts: Sequence[Json]) -> list[str]:
    if not verdicts:
        return []
    rows = [
        (
            f"<td>{escape(one['threshold'])}",
            "<td>nothing" if one["measured"] is None else f"<td>{one['measured']:.4g}",
            f"<td class={'good' if one['kept'] else 'bad'}>{'kept' if one['kept'] else 'broken'}",
        )
        for one in verdicts
    ]
    return ["<h2>Thresholds</h2>", _rows(rows, ("threshold", "measured", ""))]


def _comparison(run: Json, earlier: Json) -> list[str]:
    rows = [
        _compared(
            "operations / s", *(one["operations"]["per_second_without_error"] for one in (earlier, run)), more=True
        )
    ]
    for name, now in run["latency_us"].items():
        before = earlier["latency_us"].get(name)
        if before and name != "sent_later_than_due":
            rows += [_compared(f"{name} {key}, ms", before[key] / 1000, now[key] / 1000) for key in ("p50", "p99")]
    return ["<h2>Compared with the earlier run</h2>", _rows(rows, ("", "earlier", "this run", "change"))]


def _compared(name: str, before: float, now: float, *, more: bool = False) -> Sequence[str]:
    change = now / before - 1 if before else 0.0
    worse = change < 0 if more else change > 0
    kind = ("bad" if worse else "good") if abs(change) > THRESHOLD_OF_NOTE else ""
    return f"<td>{escape(name)}", f"<td>{before:,.2f}", f"<td>{now:,.2f}", f'<td class="{kind}">{change:+.1%}'


def _latencies(latencies: Mapping[str, Json]) -> str:
    rows = []
    for name, numbers in latencies.items():
        values = (f"<td>{numbers[key] / 1000:,.2f}" for key in COLUMNS[1:])
        rows.append((f"<td>{escape(name.replace('_', ' '))}", f"<td>{numbers['count']:,}", *values))
    return _rows(rows, ("", *COLUMNS))


def _counts(title: str, counts: Mapping[str, int]) -> list[str]:
    if not counts:
        return []
    rows = [(f"<td>{escape(name)}", f"<td>{count:,}") for name, count in counts.items()]
    return [f"<h2>{title}</h2>", _rows(rows, ("", "count"))]


def _stage(stage: Json) -> Sequence[str]:
    load = f"{stage['in_flight']} at a time"
    if stage["rate"] is not None:
        ramp = f" to {stage['ramp_to']:g}" if stage["ramp_to"] is not None else ""
        load = f"{stage['rate']:g}{ramp}/s, {stage['arrivals']}"
    return f"<td>{escape(stage['name'])}", f"<td>{load}", f"<td>{stage['seconds']:g}"


def _rows(rows: Iterable[Sequence[str]], headings: Sequence[str]) -> str:
    head = "".join(f"<th>{one}" for one in headings)
    body = "".join(f"<tr>{''.join(row)}" for row in rows)
    return f"<div class=wide><table><tr>{head}{body}</table></div>"
