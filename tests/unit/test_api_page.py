"""The API reference says what the protos say."""

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from scripts.document_api import PAGE, described, page


def test_the_page_is_current_and_names_every_rpc_message_field_and_enum_value() -> None:
    """Else: `python -m scripts.document_api`."""
    files = described()
    text = page(files)

    assert PAGE.read_text("utf-8") == text
    for file in files:
        for service in file.service:
            assert all(f"#### {service.name}.{method.name}\n" in text for method in service.method)
        for message in file.message_type:
            assert f"### {message.name}\n" in text
            assert all(f"| `{field.name}` |" in text for field in message.field)
        for enum in file.enum_type:
            assert all(f"| `{value.name}` | {value.number} |" in text for value in enum.value)


def test_every_service_says_how_to_reach_it() -> None:
    """A stranger finds metadata, address and limits in its comment; in the first one all that a turn needs."""
    said = {
        service.name: " ".join(_service_comment(file, at).split())
        for file in described()
        for at, service in enumerate(file.service)
    }
    assert len(said) == len(PROTO_SERVICES)
    for name, words in PROTO_SERVICES.items():
        assert not [word for word in ("Metadata", "essages", *words) if word not in said[name]], said[name]


def _service_comment(file: FileDescriptorProto, at: int) -> str:
    (comment,) = (each.leading_comments for each in file.source_code_info.location if list(each.path) == [6, at])
    return comment


PROTO_SERVICES = {
    "DispatchService": (
        *("x-subagents-boot-secret", "`server.dispatch_socket`", "`traceparent`", "Tokens:", "Deadlines:"),
        *("`dispatch.delivery_margin`", "Limits:", "64 calls", "While at least one remains", "`google.rpc.ErrorInfo`"),
    ),
    "SubAgentRunnerService": ("`targets`", "Unix socket", "`traceparent`", "deadline"),
    "ToolGatewayService": ("x-subagents-grant", "`server.agents_socket`", "Limits:"),
    "HistoryService": ("x-subagents-boot-secret", "`server.dispatch_socket`", "`operators.socket`", "`traceparent`"),
    "LifecycleService": ("x-subagents-role-token", "`operators.socket`", "`traceparent`"),
    "AdminService": ("x-subagents-role-token", "`operators.socket`", "`traceparent`"),
    "EnricherService": ("x-ccs-on-behalf-of", "Unix socket", "`traceparent`", "deadline"),
}
"""What the comment of each service has to name, besides `Metadata` and the limit of messages."""


def test_titles_are_unique_so_that_every_link_leads_to_its_message() -> None:
    """Two packages may have messages of one name; a page cannot have two anchors of one."""
    names = [each.name for file in described() for each in file.message_type]
    names += [each.name for file in described() for each in file.enum_type]
    names += [each.name for file in described() for each in file.service]
    assert sorted(names) == sorted(set(names))


def test_a_change_of_a_proto_changes_the_page() -> None:
    """A new field without a comment is shown, too."""
    file = FileDescriptorProto(package="subagents.x.v1")
    file.message_type.add(name="Thing").field.add(name="size", number=7, type="TYPE_INT32")
    before = page([file])
    file.message_type[0].field.add(name="name", number=8, type="TYPE_STRING")

    assert "| `size` | int32 | 7 |  |" in before
    assert "| `name` | string | 8 |  |" in page([file])
    assert "`name`" not in before
