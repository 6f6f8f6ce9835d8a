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
