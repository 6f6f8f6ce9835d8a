"""Panels, and dashboards made of them. Grafana's own library builds the JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement, TooltipDisplayMode
from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableRefresh

from sidecar.observability.names import READY

SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")
HEIGHT: Final = 8
WHOLE_WIDTH: Final = 24


@dataclass(frozen=True, slots=True)
class Graph:
    """A panel with curves over time.

    Attributes:
        queries: PromQL with the legend of its curves, e.g. `{{outcome}}`.
        unit: as Grafana names it: `short`, `s`, `reqps`, `percentunit`, `bytes`, `currencyUSD`.
        description: what the panel shows and what to do about it; Grafana shows it beside the title.
    """

    title: str
    queries: Sequence[tuple[str, str]]
    unit: str
    description: str
    width: int = 8

    def build(self) -> timeseries.Panel:
        """Return Grafana's panel."""
        legend = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
        panel = (
            timeseries.Panel()
            .title(self.title)
            .description(self.description)
            .datasource(SOURCE)
            .unit(self.unit)
            .min(0)
            .height(HEIGHT)
            .span(self.width)
            .legend(legend.show_legend(True))
            .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
        )
        for number, (query, name) in enumerate(self.queries):
            panel = panel.with_target(_target(query, name, number))
        return panel


@dataclass(frozen=True, slots=True)
class Number:
    """A panel with the newest value of one query."""

    title: str
    query: str
    unit: str
    description: str
    width: int = 4

    def build(self) -> stat.Panel:
        """Return Grafana's panel."""
        return (
            stat.Panel()
            .title(self.title)
            .description(self.description)
            .datasource(SOURCE)
            .unit(self.unit)
            .height(HEIGHT // 2)
            .span(self.width)
            .with_target(_target(self.query, "", 0))
        )


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard: rows of panels, each row with its title.

    Attributes:
        name: of its file, and its `uid`.
        variables: further variables: name, label, and the PromQL that lists their values.
        marks: what is drawn into every graph: name and PromQL that has a value when it happened.
    """

    name: str
    title: str
    description: str
    rows: Sequence[tuple[str, Sequence[Graph | Number]]]
    variables: Sequence[tuple[str, str, str]] = ()
    marks: Sequence[tuple[str, str]] = ()

    def to_json(self) -> str:
        """Return the file that Grafana imports."""
        built = (
            dashboard.Dashboard(self.title)
            .uid(f"sidecar-{self.name}")
            .description(self.description)
            .tags(["dispatch-sidecar"])
            .readonly()
            .refresh("30s")
            .time("now-1h", "now")
            .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        )
        for variable in (*_COMMON, *self.variables):
            built = built.with_variable(_variable(*variable))
        for name, query in self.marks:
            built = built.annotation(
                dashboard.AnnotationQuery().name(name).datasource(SOURCE).enable(True).icon_color("orange").expr(query)
            )
        for title, panels in self.rows:
            built = built.with_row(dashboard.Row(title))
            for panel in panels:
                built = built.with_panel(panel.build())
        return JSONEncoder(sort_keys=True, indent=2).encode(built.build()) + "\n"


_COMMON: Final = (
    ("job", "job", f'label_values({{__name__=~"{READY}"}}, job)'),
    ("instance", "replica", f'label_values({{__name__=~"{READY}", job=~"$job"}}, instance)'),
)


def _variable(name: str, label: str, values: str) -> dashboard.QueryVariable:
    """Return a variable of which any number of values can be chosen; all of them to begin with."""
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(values)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
        .all_value(".*")
    )


def _target(query: str, name: str, number: int) -> prometheus.Dataquery:
    return prometheus.Dataquery().expr(query).legend_format(name).ref_id(chr(ord("A") + number))
