"""What is concluded from curves, and how they are drawn."""

from xml.etree import ElementTree

import pytest

from scripts import growth
from scripts.benchmark.growth.charts import chart, ticks
from scripts.benchmark.growth.curves import Curve, Figure, Point, change, each, keeps_up, plateau

SVG = "{http://www.w3.org/2000/svg}"


def a_curve() -> Curve:
    """Return two figures over three steps."""
    points = [Point(at, {"memory": 80.0 + at / 100, "CPU": 600.0}) for at in (10, 500, 1000)]
    return Curve("definitions", "A <sidecar>", "definitions", (Figure("memory", "MB"), Figure("CPU", "us")), points)


@pytest.mark.parametrize(
    ("values", "gained", "met"),
    [
        ([80.0, 120.0, 150.0, 155.0, 158.0, 158.0, 159.0, 159.0], 0.6, True),
        ([80.0, 90.0, 100.0, 110.0, 120.0, 130.0, 140.0, 150.0], 16.0, False),
        ([100.0] * 6 + [102.0] * 2, 2.0, True),
        ([100.0] * 6 + [104.0] * 2, 4.0, False),
        ([80.0] * 7, None, None),
    ],
)
def test_memory_has_a_plateau_if_it_hardly_gains_in_the_last_quarter(
    values: list[float], gained: float | None, met: bool | None
) -> None:
    """It may grow before; a steady rise is none, and neither is a late one. Few points say nothing."""
    found = plateau("memory", values)

    assert (found.value if found.value is None else round(found.value, 1), found.met) == (gained, met)


@pytest.mark.parametrize(
    ("values", "met"),
    [
        ([0, 10, 0, 20, 0, 10, 0, 600], True),
        ([0, 10, 0, 20, 0, 10, 0, 601], False),
        ([0, 900, 800, 700, 0, 850, 900, 0], True),
        ([100, 300, 500, 700, 900, 1100, 1300, 1500], False),
        ([0, 0, 0, 0, 0, 0, 0], None),
    ],
)
def test_a_lag_may_swing_and_must_not_grow(values: list[float], met: bool | None) -> None:
    """By the most in each half of the run; too few points say nothing."""
    assert keeps_up("lag", values, 600, "facts").met is met


def test_one_point_says_nothing_about_growth() -> None:
    """Neither how many times as much, nor what each further one adds."""
    points = a_curve().points

    assert change("CPU", [600.0]).value is None
    assert each("memory", points[:1], "memory", "MB").value is None
    assert each("memory", points, "memory", "MB").value == pytest.approx(0.01)
    assert change("CPU", [600.0, 900.0]).value == 1.5


def test_a_picture_names_its_axes_with_units_and_shows_every_point() -> None:
    """It is well-formed, has its own background, and colours for a dark page, too."""
    picture = chart(a_curve(), "2026-11-23, 2 cores")

    drawing = ElementTree.fromstring(picture)
    texts = [found.text for found in drawing.iter(f"{SVG}text")]
    assert {"A <sidecar>", "memory, MB", "CPU, us", "definitions", "2026-11-23, 2 cores"} <= set(texts)
    assert len(list(drawing.iter(f"{SVG}circle"))) == 2 * 3
    assert [len((line.get("points") or "").split()) for line in drawing.iter(f"{SVG}polyline")] == [3, 3]
    assert "@media (prefers-color-scheme: dark)" in picture
    assert next(drawing.iter(f"{SVG}rect")).get("class") == "page"


def test_every_point_lies_within_the_picture() -> None:
    """Zero and the most, which lie on the edges."""
    points = [Point(at, {"memory": value}) for at, value in ((0, 0.0), (7, 123.4), (5_000_000, 1e6))]
    picture = chart(Curve("facts", "Facts", "facts", (Figure("memory", "MB"),), points), "")

    drawing = ElementTree.fromstring(picture)
    _, _, width, height = map(float, (drawing.get("viewBox") or "").split())
    for circle in drawing.iter(f"{SVG}circle"):
        assert 0 < float(circle.get("cx") or -1) < width
        assert 0 < float(circle.get("cy") or -1) < height


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (1000, (0, 250, 500, 750, 1000)),
        (134, (0, 50, 100)),
        (0.98, (0, 0.25, 0.5, 0.75)),
        (5_000_000, (0, 2_000_000, 4_000_000)),
        (0, (0,)),
    ],
)
def test_ticks_are_round(most: float, expected: tuple[float, ...]) -> None:
    """Ones, twos, two and a halfs and fives."""
    assert ticks(most) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "dispatches,people"], "only these can be measured: dispatches, definitions, turns, facts"),
        (["--facts", "10,5"], "steps grow, from 1 on"),
        (["--turns", "0,5"], "steps grow, from 1 on"),
        (["--definitions", "many"], "steps are numbers with commas between them"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is started."""
    with pytest.raises(SystemExit) as ended:
        growth.main(arguments)

    assert ended.value.code == 2
    assert said in capsys.readouterr().err
