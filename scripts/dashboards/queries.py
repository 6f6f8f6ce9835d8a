"""PromQL over the sidecar's metrics, for servers with either spelling of the names.

A name is matched as a pattern, in which a dot stands for any one character: `sidecar.ready` and `sidecar_ready`.
"""

from typing import Final

WINDOW: Final = "$__rate_interval"
"""Grafana's variable: at least four scrapes."""


def series(name: str, *conditions: str) -> str:
    """Return the selector of a sidecar's metric; each condition is PromQL, e.g. `outcome="failed"`."""
    return beside(name, 'job=~"$job"', 'instance=~"$instance"', *conditions)


def beside(name: str, *conditions: str) -> str:
    """Return the selector of a metric of another process, which has another job and instance than the sidecars."""
    return "{" + ", ".join((f'__name__=~"{name}"', *conditions)) + "}"


def rate(name: str, by: str, *conditions: str) -> str:
    """Return events per second, added up over all series with the same labels `by`."""
    return f"sum by ({by}) (rate({series(name, *conditions)}[{WINDOW}]))"


def share(name: str, by: str, part: str, whole: str) -> str:
    """Return the share of the events with the condition `part` among those with `whole`; 0 if there is no such part."""
    everything = rate(name, by, whole)
    return f"({rate(name, by, part)} or 0 * {everything}) / ({everything} > 0)"


def quantile(share_below: float, name: str, by: str, *conditions: str) -> str:
    """Return a quantile of a histogram, e.g. 0.99: the value below which 99 % of the observations are."""
    buckets = rate(f"{name}_bucket", ", ".join(filter(None, ("le", by))), *conditions)
    return f"histogram_quantile({share_below}, {buckets})"


def total(name: str, by: str = "", *conditions: str) -> str:
    """Return the sum of a gauge over all series with the same labels `by`."""
    return f"sum by ({by}) ({series(name, *conditions)})"
