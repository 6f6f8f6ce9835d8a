"""The report: one page that loads nothing, in which nothing that was said can act."""

import re
from html.parser import HTMLParser

from clients.evals.tests.support.trials import case_of, run_of, trial_of
from subagents_evals.measures.comparison import compared
from subagents_evals.measures.metrics import share_of
from subagents_evals.measures.trial import TranscriptLine
from subagents_evals.report.page import page_of, scale_page
from subagents_evals.runs.scaling import Point

ATTACK = '"><script>alert(1)</script><img src=x onerror=alert(2)>'


class Tags(HTMLParser):
    """Collects tags and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note."""
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        """Take note."""
        self.texts.append(data)


def read(page: str) -> Tags:
    """Parse a page."""
    tags = Tags()
    tags.feed(page)
    return tags


def test_nothing_that_was_said_can_act_in_the_page() -> None:
    """Messages, calls, names of tools, failures, ids and the model's name may all be hostile."""
    case = case_of(f"one{ATTACK}", "shop", language=f"en{ATTACK}")
    line = TranscriptLine("user", ATTACK, (ATTACK,))
    trial = trial_of(case, ATTACK, problem=ATTACK, transcript=(line,))
    run = run_of(trial, model=ATTACK, configuration=ATTACK, gaps=(ATTACK,), run_id=ATTACK)

    tags = read(page_of(run, [ATTACK], compared(run, run)))

    assert not tags.tags & {"script", "img", "iframe", "link", "object", "a"}
    assert not any(name.startswith("on") or name in {"src", "href"} for name in tags.attributes)
    assert ATTACK in "".join(tags.texts)


def test_the_page_loads_nothing_and_forbids_itself_to() -> None:
    """No address, and a policy that a browser holds it to."""
    page = page_of(run_of(trial_of(case_of("one", "shop"), "shop")), [])

    assert not re.search(r"https?://|url\(|@import", page)
    assert "default-src 'none'" in page


def test_every_failing_transcript_is_there_and_no_other() -> None:
    """With what was wanted and what was called."""
    bad = trial_of(
        case_of("bad", "shop"),
        "rewards",
        transcript=(TranscriptLine("user", "say bad"), TranscriptLine("assistant", "Hm.")),
    )
    good = trial_of(case_of("good", "shop"), "shop", transcript=(TranscriptLine("user", "say good"),))

    page = page_of(run_of(bad, good), ["shop: too low"])

    assert "say bad" in page
    assert "say good" not in page
    assert "wanted shop; called rewards" in page
    assert "shop: too low" in page


def test_figures_stand_there_for_each_sub_agent_language_and_kind_with_precision_and_recall() -> None:
    """Shop was called twice and wanted once, in English; the German case is small talk."""
    trials = (trial_of(case_of("one", "shop"), "shop"), trial_of(case_of("two", language="de"), "shop"))
    texts = read(page_of(run_of(*trials), [])).texts

    assert [one for one in texts if one in {"en", "de", "single"}] == ["en", "de", "single"] * 2
    row = texts.index("recall")
    assert texts[row + 1 : row + 6] == ["shop", "50.0 % ", "9\u201391", "100.0 % ", "21\u2013100"]


def test_plots_are_inline_with_a_bar_for_each_group() -> None:
    """All and three sub-agents, one language, one kind; scale: one for each number."""
    page = page_of(run_of(trial_of(case_of("one", "shop"), "shop")), [])
    points = [Point(number, share_of(9, 10), 900.0, None, 0.01) for number in (3, 10)]

    assert page.count("<svg") == 3
    assert page.count("<path") == 4 + 1 + 1
    assert scale_page(points, "config", "offline").count("<path") == 2
