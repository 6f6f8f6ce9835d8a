"""Adds the evaluation cases of a new sub-agent: messages that the orchestrator's model should route to it.

A complete set has a case for the switch between each two sub-agents, in both directions.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sidecar.cli.init.yaml_insertion import InsertedYaml, text_of, value_of
from sidecar.cli.scaffolding.project_files import filled

# A conversation with one sub-agent (`left`) that continues with another (`asked`).
SWITCH = """\
- id: switch-{left}-to-{asked}
  kind: switch
  message: {message}
  history: [{{user: {earlier}, assistant: {answer}, called: [{left}]}}]
  calls: [{asked}]
  forbidden: [{left}]
"""


def with_cases(cases: InsertedYaml, suite: InsertedYaml, words: Mapping[str, str], others: list[str]) -> None:
    """Add the cases of the sub-agent, and its scripted answer for evaluations.

    Args:
        cases: labelled messages.
        suite: the settings for all cases.
        words: the values of the templates.
        others: sub-agents that the same orchestrator may call.
    """
    suite.append_pair("sub_agents", filled("init_templates/new/suite_entry.yaml.txt", words))
    # Before the new cases are appended: these are the messages for the other sub-agents.
    questions = _questions(cases)
    cases.append_item("cases", filled("init_templates/new/cases.yaml.txt", words))
    questions[words["name"]] = f"What can you tell me about {words['topic']}?"
    answers = suite.pairs("sub_agents")
    for other in others:
        if other not in questions:  # its owner adds the cases; `eval run --record` says which are missing
            continue
        for left, asked in ((other, words["name"]), (words["name"], other)):
            last_answer = text_of(answers.get(left), "answer") or "Yes."
            # A JSON string is a valid YAML string, whatever characters the text has.
            message, earlier, answer = map(json.dumps, (questions[asked], questions[left], last_answer))
            cases.append_item(
                "cases", SWITCH.format(left=left, asked=asked, message=message, earlier=earlier, answer=answer)
            )


def _questions(cases: InsertedYaml) -> dict[str, str]:
    """Return a message for each sub-agent that a case without a history calls alone."""
    messages: dict[str, str] = {}
    for case in cases.items("cases"):
        called = list(_called(case))
        if len(called) == 1 and value_of(case, "history") is None:
            messages.setdefault(called[0], text_of(case, "message"))
    return messages


def _called(case: Any) -> Iterator[str]:
    calls = value_of(case, "calls")
    return (str(each.value) for each in getattr(calls, "value", ()))
