"""Every RPC that the protos declare has a row in the authorisation table, and every row is of an RPC.

A method that the sidecar does not serve (a runner host does) has a row with nobody in it. What operators may call has a
row in the table of roles, too.
"""

import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module

import pytest
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import ServiceDescriptor

import subagents

STANDARD = ("grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection")
"""Services that grpcio brings and the sidecar serves."""

OPEN_TO_PROBES = ("/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/List", "/grpc.health.v1.Health/Watch")
"""What a probe may ask without a token."""


def declared() -> list[str]:
    """Return the full name of every RPC, as gRPC sends it: `/package.Service/Method`."""
    import_module("grpc_health.v1.health_pb2")
    import_module("grpc_reflection.v1alpha.reflection_pb2")
    services: list[ServiceDescriptor] = []
    for found in pkgutil.walk_packages(subagents.__path__, "subagents."):
        if found.name.endswith("_pb2"):
            services += import_module(found.name).DESCRIPTOR.services_by_name.values()
    services += (descriptor_pool.Default().FindServiceByName(name) for name in STANDARD)
    names = [f"/{service.full_name}/{method.name}" for service in services for method in service.methods]
    # grpcio brings no descriptor of v1, whose messages and methods are those of v1alpha.
    return [*names, *(name.replace(".v1alpha.", ".v1.") for name in names if ".v1alpha." in name)]


def violations(rpcs: Iterable[str], callers_of: Mapping[str, object]) -> Iterator[str]:
    """Yield each RPC without a row, each row without an RPC, each row that is not a fixed set."""
    rpcs = list(rpcs)
    yield from (f"{name} has no row in CALLERS_OF" for name in rpcs if name not in callers_of)
    yield from (f"{name} is no RPC" for name in callers_of if name not in rpcs)
    yield from (f"{name}: not a frozenset" for name, kinds in callers_of.items() if not isinstance(kinds, frozenset))


def roles_missing(callers_of: Mapping[str, frozenset[str]], roles_of: Mapping[str, frozenset[str]]) -> Iterator[str]:
    """Yield each method of operators that no role may call, and each row of roles that is of no method there."""
    of_operators = [name for name, kinds in callers_of.items() if "operator" in kinds]
    closed = [name for name in of_operators if name not in OPEN_TO_PROBES]
    yield from (f"{name} has no row in ROLES_OF" for name in closed if not roles_of.get(name))
    yield from (f"{name} is not served to operators" for name in roles_of if name not in of_operators)


def test_every_rpc_of_operators_has_its_roles() -> None:
    """Health alone needs no token."""
    callers_of = import_module("sidecar.rpc.authorisation").CALLERS_OF
    assert list(roles_missing(callers_of, import_module("sidecar.rpc.operators").ROLES_OF)) == []


@pytest.mark.parametrize(
    ("roles_of", "complaint"),
    [
        ({}, "/a.B/C has no row in ROLES_OF"),
        ({"/a.B/C": frozenset()}, "/a.B/C has no row in ROLES_OF"),
        ({"/a.B/C": frozenset({"viewer"}), "/a.B/Gone": frozenset()}, "/a.B/Gone is not served to operators"),
    ],
)
def test_a_wrong_table_of_roles_is_caught(roles_of: Mapping[str, frozenset[str]], complaint: str) -> None:
    """A row missing, a row with nobody in it, a row left over."""
    callers_of = {"/a.B/C": frozenset({"operator"}), "/a.B/Dispatch": frozenset({"consumer_agent"})}
    assert list(roles_missing(callers_of, roles_of)) == [complaint]


def test_every_rpc_is_authorised() -> None:
    """Ours, health and reflection, against the table of the sidecar."""
    assert list(violations(declared(), import_module("sidecar.rpc.authorisation").CALLERS_OF)) == []


def test_the_protos_declare_rpcs() -> None:
    """The list is not empty by mistake."""
    assert "/subagents.dispatch.v1.DispatchService/BindTurn" in declared()
    assert "/grpc.health.v1.Health/Check" in declared()


@pytest.mark.parametrize(
    ("callers_of", "complaint"),
    [
        ({}, "/a.B/C has no row in CALLERS_OF"),
        ({"/a.B/C": frozenset(), "/a.B/Gone": frozenset()}, "/a.B/Gone is no RPC"),
        ({"/a.B/C": None}, "/a.B/C: not a frozenset"),
    ],
)
def test_a_wrong_table_is_caught(callers_of: Mapping[str, object], complaint: str) -> None:
    """A row missing, a row left over, a row that allows whatever it is asked."""
    assert list(violations(["/a.B/C"], callers_of)) == [complaint]
