"""The page of hooks says what `sidecar/policy` says."""

import ast

from scripts.document_hooks import OPTIONAL, PAGE, definitions, documented, page
from sidecar.policy.specs import SPEC_TYPES


def test_the_page_is_current_and_has_every_hook_descriptor_and_object() -> None:
    """Else: `python -m scripts.document_hooks`."""
    text = page()

    assert PAGE.read_text("utf-8") == text
    for hook, spec in SPEC_TYPES.items():
        assert f"\n## `{hook}`\n" in text
        assert f"**Descriptor `{spec.__name__}`.**" in text
    assert text.count("\n**Object `") == len(SPEC_TYPES)
    assert text.count("\n**Optional interface `") == sum(map(len, OPTIONAL.values()))
    assert text.count("| May block or await | no. ") == len(SPEC_TYPES)


def test_every_class_that_the_values_name_is_there() -> None:
    """A field whose type is a class of the policy leads to the section of that class."""
    values = PAGE.read_text("utf-8").partition("\n## Values\n")[2]
    named = {name.id for line in values.splitlines() if line.startswith("| `") for name in _names(line.split("`")[3:4])}
    known = {name for name, node in definitions().items() if isinstance(node, ast.ClassDef)}

    assert [name for name in sorted(named & known) if f"\n### `{name}`\n" not in values] == []


def _names(types: list[str]) -> list[ast.Name]:
    found = (ast.walk(ast.parse(each.replace("\\|", "|"), mode="eval")) for each in types if "(" not in each)
    return [name for each in found for name in each if isinstance(name, ast.Name)]


def test_a_docstring_is_told_by_name_and_without_requirement_ids() -> None:
    """Labels with several names, continued lines, and sources at the end."""
    node = ast.parse(
        'class Sample:\n    """Does it. Source: PC2-FR-11, REQUIREMENTS 6.5.\n\n    Attributes:\n'
        '        one, two: of a pair,\n            told once.\n        three: the last.\n    """\n'
    ).body[0]

    told = documented(node)

    assert told.text == "Does it."
    assert told.names == {"one": "of a pair, told once.", "two": "of a pair, told once.", "three": "the last."}
