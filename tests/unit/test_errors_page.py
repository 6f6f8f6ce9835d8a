"""The page of errors says what the proto and the tree of exceptions say."""

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from scripts.document_api import described
from scripts.document_errors import PAGE, page, reasons
from scripts.generated_page import NotDocumented
from sidecar.cli.subagent.advice import advice_for
from subagents.errors.v1 import error_reason_pb2


def errors_proto() -> FileDescriptorProto:
    """Return the proto of the reasons with its comments, to be changed."""
    copy = FileDescriptorProto()
    copy.CopyFrom(next(file for file in described() if file.package == "subagents.errors.v1"))
    return copy


def test_the_page_is_current_and_has_a_row_for_every_reason() -> None:
    """Else: `python -m scripts.document_errors`."""
    text = page(list(described()))

    assert PAGE.read_text("utf-8") == text
    for name, number in error_reason_pb2.ErrorReason.items():
        assert (f"`{name.removeprefix('ERROR_REASON_')}` | {number} |" in text) == (number > 0)


def test_a_reason_leads_to_its_symptom() -> None:
    """As the table at the beginning of the troubleshooting page has it."""
    (row,) = (line for line in PAGE.read_text("utf-8").splitlines() if "`TOOL_NOT_ALLOWED`" in line)
    assert row.endswith("(troubleshooting.md#a-tool-added-after-the-promotion-is-not-allowed). |")


def test_every_reason_says_in_words_that_are_known_which_reader_sees_it() -> None:
    """The page explains four readers."""
    readers = {reader for each in reasons(list(described())) for reader in each.seen.split(", ")}
    assert readers == {"consumer-agent", "runner host", "operator", "model"}


def test_the_command_line_leads_to_the_row_of_a_reason_that_it_has_no_advice_for() -> None:
    """A failure of the wire without a reason leads nowhere; a reason with advice of its own keeps that."""
    link = advice_for("ADMISSION_REFUSED", {}, "shop")

    assert link == "see docs/errors.md#admission_refused"
    assert f'<a id="{link.partition("#")[2]}"></a>`ADMISSION_REFUSED`' in PAGE.read_text("utf-8")
    assert advice_for("", {}, "shop") == ""
    assert "errors.md" not in advice_for("GATE_HELD", {}, "shop")


@pytest.mark.parametrize(
    ("there", "instead", "said"),
    [
        (" What to do:", " Advice:", "INVALID_REQUEST: the comment has to be"),
        (
            "Status: INVALID_ARGUMENT",
            "Status: ABORTED",
            "INVALID_REQUEST: the comment says status ABORTED, the exception",
        ),
    ],
    ids=["no advice", "wrong status"],
)
def test_a_comment_that_lacks_a_part_or_contradicts_the_code_is_refused(there: str, instead: str, said: str) -> None:
    """A new reason cannot be added without advice."""
    file = errors_proto()
    for location in file.source_code_info.location:
        location.leading_comments = location.leading_comments.replace(there, instead)

    with pytest.raises(NotDocumented, match=said):
        list(reasons([file]))
