"""The report as one HTML page, without scripts and external resources; all texts are escaped."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final

from subagents_evals.measures.comparison import Comparison
from subagents_evals.measures.metrics import NONE, Figures, Share, Spread, Tool
from subagents_evals.measures.results import Run
from subagents_evals.measures.trial import Trial
from subagents_evals.runs.scaling import Point

STYLE: Final = """
:root{color-scheme:light dark;--ink:light-dark(#1b1f24,#e6e8eb);--soft:light-dark(#5b6470,#9aa4b0);
--line:light-dark(#d9dee4,#363c44);--good:light-dark(#2f7d4f,#5fbf85);--bad:light-dark(#b3382c,#f08a7d);
--back:light-dark(#fff,#15181c);--card:light-dark(#f6f8fa,#1d2126)}
*{box-sizing:border-box}body{margin:2rem auto;max-width:64rem;padding:0 1rem;background:var(--back);color:var(--ink);
font:15px/1.5 system-ui,sans-serif}h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2.2rem 0 .6rem}
p.sub{color:var(--soft);margin:.2rem 0 1rem}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .7rem;text-align:right;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left}
th{font-weight:600;color:var(--soft)}.bad{color:var(--bad)}.good{color:var(--good)}.wide{overflow-x:auto}
svg text{fill:var(--ink);font:12px system-ui,sans-serif}svg .soft{fill:var(--soft)}
details{background:var(--card);border:1px solid var(--line);border-radius:6px;margin:.5rem 0;padding:.5rem .8rem}
summary{cursor:pointer}
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:.3rem 0;font:13px/1.45 ui-monospace,monospace}
.who,small{color:var(--soft)}.note{border-left:3px solid var(--bad);padding:.1rem .8rem;background:var(--card)}
"""
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
BAR: Final = 320
LEFT: Final = 130
ROW: Final = 24


def page_of(run: Run, short: Sequence[str], comparison: Comparison | None = None) -> str:
    """Return the report of a run.

    Args:
        run: what was measured.
        short: the thresholds that the run does not meet, one sentence each.
        comparison: with an earlier run, shown before the figures.
    """
    title = f"Routing of {escape(run.configuration)}"
    body = [
        f"<h1>{title}</h1>",
        f"<p class=sub>{escape(run.model)} &middot; {escape(run.recorded_at.isoformat())} &middot; "
        f"{run.metrics.all.cases} cases &times; {run.repetitions} &middot; run {escape(run.run_id)}</p>",
        *(["<p class=note>Offline results: the lexical router stands in for a model.</p>"] if run.offline else []),
        *_list("Falls short", short),
        *_list("Incomplete", run.gaps),
        *(_comparison(comparison) if comparison else []),
        "<h2>Routing accuracy, 95 % intervals</h2>",
        bars([("all", run.metrics.all.routing), *((name, one.routing) for name, one in run.metrics.by_slot.items())]),
        "<h2>By language</h2>",
        bars([(name, one.routing) for name, one in run.metrics.by_language.items()]),
        "<h2>By kind of case</h2>",
        bars([(name, one.passed) for name, one in run.metrics.by_kind.items()]),
        "<p class=sub>Cases of which everything held: routing, entities, admissions, wording.</p>",
        "<h2>Figures</h2>",
        "<p class=sub>Small: 95 % intervals.</p>",
        _figures({"all": run.metrics.all, **run.metrics.by_slot}),
        f"<details><summary>by language</summary>{_figures(run.metrics.by_language)}</details>",
        f"<details><summary>by kind of case</summary>{_figures(run.metrics.by_kind)}</details>",
        "<h2>Wanted and called</h2>",
        _confusion(run.metrics.confusion),
        _tools(run.metrics.tools),
        "<h2>Definitions</h2>",
        _definitions(run),
        f"<h2>Failing transcripts ({sum(not one.passed for one in run.trials)})</h2>",
        *(_transcript(one) for one in run.trials if not one.passed),
    ]
    return _document(title, body)


def scale_page(points: Sequence[Point], configuration: str, model: str) -> str:
    """Return the page of `sidecar eval scale`."""
    title = f"Routing of {escape(configuration)} by number of sub-agents"
    rows = [
        f"<tr><td>{one.sub_agents}</td><td>{_percent(one.routing)}</td><td>{one.input_tokens:,.0f}</td>"
        f"<td>{'' if one.cost is None else f'{one.cost * 1000:.3f}'}</td><td>{one.seconds * 1000:,.0f}</td></tr>"
        for one in points
    ]
    head = "<tr><th>sub-agents<th>routing accuracy<th>input tokens<th>$ per 1,000 calls<th>ms</tr>"
    body = [
        f"<h1>{title}</h1>",
        f"<p class=sub>{escape(model)}; the routing call alone</p>",
        bars([(str(one.sub_agents), one.routing) for one in points]),
        f"<div class=wide><table>{head}{''.join(rows)}</table></div>",
    ]
    return _document(title, body)


def bars(shares: Sequence[tuple[str, Share]]) -> str:
    """Return horizontal bars with intervals as inline SVG."""
    rows = [_bar(number, name, share) for number, (name, share) in enumerate(shares)]
    height = ROW * len(shares) + 4
    return (
        f'<svg role="img" width="{LEFT + BAR + 160}" height="{height}" viewBox="0 0 {LEFT + BAR + 160} {height}">'
        f"{''.join(rows)}</svg>"
    )


def _bar(number: int, name: str, share: Share) -> str:
    top, middle = number * ROW + 4, number * ROW + ROW // 2 + 2
    low, high, end = LEFT + BAR * share.low, LEFT + BAR * share.high, LEFT + BAR * (share.value or 0)
    label = f"{share.value * 100:.1f} % ({share.hits:g} of {share.of})" if share.value is not None else "&ndash;"
    return (
        f'<text x="{LEFT - 8}" y="{middle + 4}" text-anchor="end">{escape(name)}</text>'
        f'<rect x="{LEFT}" y="{top}" width="{BAR}" height="{ROW - 8}" fill="var(--card)" stroke="var(--line)"/>'
        f'<rect x="{LEFT}" y="{top}" width="{end - LEFT:.1f}" height="{ROW - 8}" fill="var(--good)" opacity=".55"/>'
        f'<path d="M{low:.1f} {middle - 1}H{high:.1f}M{low:.1f} {middle - 5}v8M{high:.1f} {middle - 5}v8" '
        f'stroke="var(--ink)" fill="none"/>'
        f'<text class="soft" x="{LEFT + BAR + 10}" y="{middle + 4}">{label}</text>'
    )


def _document(title: str, body: Sequence[str]) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>\n'
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _list(title: str, items: Sequence[str]) -> Iterator[str]:
    if items:
        yield f"<h2 class=bad>{title}</h2><ul>{''.join(f'<li>{escape(one)}</li>' for one in items)}</ul>"


def _comparison(comparison: Comparison) -> Iterator[str]:
    changed = ", ".join(comparison.changed) or "no description or prompt of a sub-agent"
    yield f"<h2>Compared</h2><p class=sub>Changed: {escape(changed)}</p><div class=wide><table>"
    yield "<tr><th>group<th>cases<th>right in both<th>worse<th>better<th>p (McNemar, exact)<th></tr>"
    for one in comparison.groups:
        verdict = "<span class=bad>worse</span>" if one.significantly_worse else ""
        yield (
            f"<tr><td>{escape(one.name)}</td><td>{one.cases}</td><td>{one.both}</td><td>{len(one.worse)}</td>"
            f"<td>{len(one.better)}</td><td>{one.p:.4f}</td><td>{verdict}</td></tr>"
        )
    yield "</table></div>"
    for name, ids in (("Worse", comparison.groups[0].worse), ("Better", comparison.groups[0].better)):
        if ids:
            yield f"<p>{name}: {escape(', '.join(ids))}</p>"


def _figures(groups: Mapping[str, Figures]) -> str:
    rows: Sequence[tuple[str, Sequence[str]]] = [
        ("routing accuracy", [_percent(one.routing) for one in groups.values()]),
        ("on switches", [_percent(one.switches) for one in groups.values()]),
        ("everything held", [_percent(one.passed) for one in groups.values()]),
        ("intent count right", [_percent(one.intents) for one in groups.values()]),
        ("entities recalled", [_percent(one.entities) for one in groups.values()]),
        ("references to other sub-agents resolved", [_percent(one.resolved) for one in groups.values()]),
        ("safe", [_percent(one.safe) for one in groups.values()]),
        ("format kept", [_percent(one.well_formed) for one in groups.values()]),
        ("failures admitted", [_percent(one.admitted) for one in groups.values()]),
        ("&hellip; stated by the model", [_percent(one.stated) for one in groups.values()]),
        ("&hellip; noted beside its text", [_percent(one.noted) for one in groups.values()]),
        ("stated falsely", [_percent(one.falsely_stated) for one in groups.values()]),
        ("false admissions", [_percent(one.false_admissions) for one in groups.values()]),
        ("called too much", [_percent(one.over_called) for one in groups.values()]),
        ("called too little", [_percent(one.under_called) for one in groups.values()]),
        ("quality", [_number(one.quality, 2) for one in groups.values()]),
        ("first status, s (median / p95)", [_times(one.seconds_to_status) for one in groups.values()]),
        ("answer, s (median / p95)", [_times(one.seconds_to_answer) for one in groups.values()]),
        ("longest silence, s (median / p95)", [_times(one.longest_silence) for one in groups.values()]),
        ("status events of a turn", [_number(one.status_events, 1) for one in groups.values()]),
        ("input tokens of a turn", [_number(one.input_tokens, 0) for one in groups.values()]),
        ("&hellip; from the provider's cache", [_number(one.cached_input_tokens, 0) for one in groups.values()]),
        ("output tokens of a turn", [_number(one.output_tokens, 0) for one in groups.values()]),
        ("$ per 1,000 turns", [_number(one.cost, 3, 1000) for one in groups.values()]),
    ]
    head = "".join(f"<th>{escape(name)}" for name in groups)
    lines = "".join(f"<tr><td>{name}</td>{''.join(f'<td>{one}</td>' for one in cells)}</tr>" for name, cells in rows)
    return f"<div class=wide><table><tr><th>{head}</tr>{lines}</table></div>"


def _tools(tools: Mapping[str, Tool]) -> str:
    lines = "".join(
        f"<tr><td>{escape(name)}</td><td>{_percent(one.precision)}</td><td>{_percent(one.recall)}</td></tr>"
        for name, one in tools.items()
    )
    return (
        "<p class=sub>Precision: of the turns that called it, those that wanted it. Recall: of those that wanted it, "
        f"those that called it.</p><div class=wide><table><tr><th><th>precision<th>recall</tr>{lines}</table></div>"
    )


def _confusion(confusion: Mapping[str, Mapping[str, int]]) -> str:
    names = list(dict.fromkeys(called for row in confusion.values() for called in row))
    head = "".join(f"<th>{escape(name)}" for name in names)
    lines = "".join(
        f"<tr><td>{escape(wanted)}</td>{''.join(_cell(wanted, called, row.get(called, 0)) for called in names)}</tr>"
        for wanted, row in confusion.items()
    )
    return f"<div class=wide><table><tr><th>wanted &darr; called &rarr;{head}</tr>{lines}</table></div>"


def _cell(wanted: str, called: str, count: int) -> str:
    kind = "" if not count else "good" if wanted == called else "bad"
    return f'<td class="{kind}">{count or ""}</td>'


def _definitions(run: Run) -> str:
    lines = "".join(
        f"<tr><td>{escape(one.id)}</td><td>{escape(one.digest)}</td><td>{escape(one.commit[:12])}</td></tr>"
        for one in run.definitions
    )
    return f"<div class=wide><table><tr><th>definition<th>digest<th>commit</tr>{lines}</table></div>"


def _transcript(trial: Trial) -> str:
    said = "".join(
        f"<pre><span class=who>{escape(line.who)}:</span> {escape(line.text)}"
        f"{''.join(f'{chr(10)}  -&gt; {escape(call)}' for call in line.calls)}</pre>"
        for line in trial.observed.transcript
    )
    wanted, called = ", ".join(trial.wanted) or NONE, ", ".join(trial.observed.called) or NONE
    return (
        f"<details><summary><b>{escape(trial.case_id)}</b> <span class=bad>{escape('; '.join(trial.failures))}</span>"
        f"</summary><p class=sub>wanted {escape(wanted)}; called {escape(called)}</p>{said}</details>"
    )


def _percent(share: Share) -> str:
    if share.value is None:
        return "&ndash;"
    return f"{share.value * 100:.1f} % <small>{share.low * 100:.0f}&ndash;{share.high * 100:.0f}</small>"


def _number(spread: Spread, places: int, times: float = 1) -> str:
    if spread.mean is None or spread.low is None or spread.high is None:
        return "&ndash;"
    mean, low, high = (f"{one * times:,.{places}f}" for one in (spread.mean, spread.low, spread.high))
    return f"{mean} <small>{low}&ndash;{high}</small>"


def _times(spread: Spread) -> str:
    return "&ndash;" if spread.p50 is None or spread.p95 is None else f"{spread.p50:.2f} / {spread.p95:.2f}"
