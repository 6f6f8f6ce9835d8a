"""Installed plugins: only what is enabled runs; enabled and broken stops the start. Reliability rows 53 to 56."""

import sys

import pytest

from sidecar.adapters import flags_file, flags_memory
from sidecar.policy.entry_points import PluginSelection
from sidecar.policy.kinds import PluginKind
from sidecar.policy.loading import PluginHost, PluginState, load_plugins, survey_plugins
from sidecar.policy.problems import PluginProblem
from sidecar.policy.specs import FlagBackendSpec
from tests.plugins.distributions import GOOD, SitePackages

BUILT_INS = (flags_memory, flags_file)
HEAD = "from sidecar.policy.hookspecs import hookimpl\nfrom sidecar.policy.specs import *\n"


def load(*enabled: str) -> PluginHost:
    """Start with these plugins enabled."""
    return load_plugins(BUILT_INS, PluginSelection(enabled))


def refusal(*enabled: str) -> str:
    """Return the message with which the start is refused."""
    with pytest.raises(PluginProblem) as refused:
        load(*enabled)
    return str(refused.value)


def test_the_built_ins_are_there_without_anything_installed() -> None:
    """No entry point is needed."""
    assert load().names(PluginKind.FLAG_BACKEND) == ("file", "memory")


def test_an_enabled_plugin_is_imported_and_its_descriptor_can_be_chosen(site: SitePackages) -> None:
    """By its entry point's name."""
    site.install("flags-good", GOOD.format(name="good"), entry="good-plugin")

    host = load("good-plugin")

    assert host.spec(FlagBackendSpec, "good", "policy.default.flags").contract == "flag-backend/1"
    assert site.ran("flags-good")


@pytest.mark.parametrize("enabled", ["flags-good", "Flags_Good", "flags-good:good-plugin", "good-plugin"])
def test_a_plugin_can_be_enabled_by_its_distribution_too(site: SitePackages, enabled: str) -> None:
    """Written in any of the ways that mean the same distribution."""
    site.install("flags-good", GOOD.format(name="good"), entry="good-plugin")

    assert "good" in load(enabled).names(PluginKind.FLAG_BACKEND)


def test_no_code_of_a_plugin_that_is_not_enabled_ever_runs(site: SitePackages) -> None:
    """A rogue distribution is listed by name and version from its metadata, and that is all."""
    site.install("rogue", "raise SystemExit('pwned')\n", entry="rogue", version="6.6")
    site.install("flags-good", GOOD.format(name="good"), entry="good")

    rows = load("good").inventory()

    assert not site.ran("rogue")
    assert "rogue" not in sys.modules
    row = next(row for row in rows if row.distribution == "rogue")
    assert (row.name, row.version, row.state) == ("rogue", "6.6", PluginState.NOT_SELECTED)


def test_an_enabled_plugin_that_is_not_installed_stops_the_start(site: SitePackages) -> None:
    """With the choices and the nearest one."""
    site.install("flags-good", GOOD.format(name="good"), entry="good-plugin")

    message = refusal("god-plugin")

    assert "`god-plugin` is not installed" in message
    assert "did you mean `good-plugin`?" in message
    assert not site.ran("flags-good")


def test_two_distributions_with_the_same_entry_point_are_told_apart(site: SitePackages) -> None:
    """A rogue one cannot slip in under the name of another; neither is imported."""
    site.install("flags-good", GOOD.format(name="good"), entry="good")
    site.install("rogue", GOOD.format(name="good"), entry="good")

    message = refusal("good")

    assert "may mean several distributions: flags-good, rogue" in message
    assert not site.ran("rogue")
    assert not site.ran("flags-good")
    assert "good" in load("flags-good:good").names(PluginKind.FLAG_BACKEND)
    assert not site.ran("rogue")


def test_an_entry_point_cannot_pose_as_another_distribution(site: SitePackages) -> None:
    """The rogue one names its entry point like the distribution that the settings mean."""
    site.install("flags-good", GOOD.format(name="good"), entry="good")
    site.install("rogue", GOOD.format(name="good"), entry="flags-good")

    assert "may mean several distributions: flags-good, rogue" in refusal("flags-good")
    assert not site.ran("rogue")


BROKEN = {
    "import fails": ("import no_such_module_anywhere\n", ["ModuleNotFoundError", "broken 1.0"]),
    "syntax": ("def (:\n", ["SyntaxError"]),
    "exits while imported": ("raise SystemExit(3)\n", ["importing the plugin", "SystemExit: 3"]),
    "exits in its hook": (
        HEAD + "@hookimpl\ndef sidecar_runners():\n    raise SystemExit(4)\n",
        ["hook `sidecar_runners` failed with SystemExit: 4"],
    ),
    "interrupts in its hook": (
        HEAD + "@hookimpl\ndef sidecar_runners():\n    raise KeyboardInterrupt\n",
        ["hook `sidecar_runners` failed with KeyboardInterrupt"],
    ),
    "raises in its hook": (
        HEAD + "@hookimpl\ndef sidecar_runners():\n    return 1 / 0\n",
        ["hook `sidecar_runners` failed with ZeroDivisionError"],
    ),
    "misspelt hook": (
        HEAD + "@hookimpl\ndef sidecar_flag_backend():\n    return []\n",
        ["there is no hook `sidecar_flag_backend`", "did you mean `sidecar_flag_backends`?"],
    ),
    "misspelt and unmarked hook": (
        "def sidecar_runner():\n    return []\n",
        ["there is no hook `sidecar_runner`", "did you mean `sidecar_runners`?"],
    ),
    "unmarked hook": ("def sidecar_runners():\n    return []\n", ["`sidecar_runners` is not marked"]),
    "no hook at all": ("x = 1\n", ["implements no hook"]),
    "hook with an argument": (
        HEAD + "@hookimpl\ndef sidecar_runners(settings):\n    return []\n",
        ["registering the plugin failed with PluginValidationError", "settings"],
    ),
    "wrapper": (
        HEAD + "@hookimpl(wrapper=True)\ndef sidecar_runners():\n    return (yield)\n",
        ["hook `sidecar_runners` is a wrapper"],
    ),
    "async hook": (
        HEAD + "@hookimpl\nasync def sidecar_runners():\n    return []\n",
        ["hook `sidecar_runners` is async"],
    ),
    "forgotten return": (
        HEAD + "@hookimpl\ndef sidecar_runners():\n    pass\n",
        ["returned NoneType", "return a list of RunnerSpec"],
    ),
    "generator": (HEAD + "@hookimpl\ndef sidecar_runners():\n    yield 1\n", ["returned generator"]),
    "list of the wrong kind": (
        HEAD + "@hookimpl\ndef sidecar_runners():\n    return [{'name': 'x'}]\n",
        ["returned a list that holds dict"],
    ),
    "descriptor of another kind": (
        HEAD
        + "@hookimpl\ndef sidecar_runners():\n"
        + "    return [ConnectorSpec(name='x', contract='connector/1', summary='', factory=print)]\n",
        ["returned a list that holds ConnectorSpec", "RunnerSpec only"],
    ),
    "contract of another kind": (
        HEAD
        + "@hookimpl\ndef sidecar_runners():\n"
        + "    return [RunnerSpec(name='x', contract='connector/1', summary='', factory=print)]\n",
        ["states the contract 'connector/1'", "`runner/1`"],
    ),
    "bad name": (
        HEAD
        + "@hookimpl\ndef sidecar_runners():\n"
        + "    return [RunnerSpec(name='No Good', contract='runner/1', summary='', factory=print)]\n",
        ["runner 'No Good': its name must be"],
    ),
    "bad schema": (
        HEAD
        + "@hookimpl\ndef sidecar_runners():\n"
        + "    return [RunnerSpec(name='x', contract='runner/1', summary='', factory=print,"
        + " config_schema={'type': 'no-such-type'})]\n",
        ["runner 'x': config_schema is no JSON schema"],
    ),
    "schema that fetches": (
        HEAD
        + "@hookimpl\ndef sidecar_runners():\n"
        + "    return [RunnerSpec(name='x', contract='runner/1', summary='', factory=print,"
        + " config_schema={'$ref': 'http://127.0.0.1:1/schema.json'})]\n",
        ["runner 'x': config_schema is no JSON schema"],
    ),
    "factory that cannot be called": (
        HEAD
        + "@hookimpl\ndef sidecar_runners():\n"
        + "    return [RunnerSpec(name='x', contract='runner/1', summary='', factory=None)]\n",
        ["its factory cannot be called"],
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_an_enabled_and_broken_plugin_stops_the_start_and_says_why(site: SitePackages, case: str) -> None:
    """What went wrong, in which entry point of which distribution, and what to do."""
    code, expected = BROKEN[case]
    site.install("broken", code, entry="it")

    message = refusal("it")

    for part in [*expected, "entry point `it` = broken of broken 1.0", "what to do: "]:
        assert part in message


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_plugin_leaves_nothing_behind_and_the_others_load(site: SitePackages, case: str) -> None:
    """When listing: its own row is `broken`, the good one is `available`."""
    site.install("broken", BROKEN[case][0], entry="it")
    site.install("flags-good", GOOD.format(name="good"), entry="good")

    host = survey_plugins(BUILT_INS, PluginSelection(("it", "good")))

    states = {row.name: row.state for row in host.inventory()}
    available = PluginState.AVAILABLE
    assert states == {"it": PluginState.BROKEN, "good": available, "memory": available, "file": available}


def test_a_plugin_whose_second_hook_fails_registers_not_even_its_first(site: SitePackages) -> None:
    """A half plugin would be worse than none."""
    site.install("half", GOOD.format(name="half") + "\n@hookimpl\ndef sidecar_runners():\n    return 7\n", entry="half")

    assert survey_plugins((), PluginSelection(("half",))).names(PluginKind.FLAG_BACKEND) == ()


def test_an_entry_point_that_names_a_class_is_refused(site: SitePackages) -> None:
    """Its hooks would have no object to run on."""
    code = HEAD + "class Plugin:\n    @hookimpl\n    def sidecar_runners(self):\n        return []\n"
    site.install("classy", code + "plugin = Plugin()\n", entry="classy", target="classy:Plugin")
    site.install("instance", code + "plugin = Plugin()\n", entry="instance", target="instance:plugin")

    assert "the plugin is the class `Plugin`" in refusal("classy")
    assert load("instance").names(PluginKind.RUNNER) == ()


@pytest.mark.parametrize(("contract", "state"), [("flag-backend/1", "available"), ("flag-backend/2", "incompatible")])
def test_a_contract_of_an_unknown_major_is_refused(site: SitePackages, contract: str, state: str) -> None:
    """Whatever the object would do."""
    site.install("later", GOOD.format(name="later").replace("flag-backend/1", contract), entry="later")

    rows = survey_plugins((), PluginSelection(("later",))).inventory()

    assert [(row.name, str(row.state)) for row in rows] == [("later", state)]
    if state == "incompatible":
        assert "is written for flag-backend/2; this sidecar speaks flag-backend/1" in refusal("later")


def test_two_descriptors_with_one_name_stop_the_start_and_both_are_named(site: SitePackages) -> None:
    """Of a plugin and a built-in, and of two plugins."""
    site.install("flags-mine", GOOD.format(name="memory"), entry="mine")
    site.install("flags-a", GOOD.format(name="same"), entry="a")
    site.install("flags-b", GOOD.format(name="same"), entry="b")

    with_built_in, with_each_other = refusal("mine"), refusal("a", "b")

    assert "two plugins offer a flag-backend named `memory`" in with_built_in
    assert "built-in sidecar.adapters.flags_memory, and entry point `mine`" in with_built_in
    assert "of flags-a 1.0, and entry point `b` = flags_b of flags-b 1.0" in with_each_other


def test_the_order_of_plugins_does_not_matter(site: SitePackages) -> None:
    """Enabled in either order, the same rows come out."""
    site.install("flags-a", GOOD.format(name="a"), entry="a")
    site.install("flags-b", GOOD.format(name="b"), entry="b")

    assert load("a", "b").inventory() == load("b", "a").inventory()


def test_a_broken_built_in_is_reported_by_its_module() -> None:
    """A mistake of ours is as clear as one of theirs."""

    class Nothing:
        """Implements no hook."""

    with pytest.raises(PluginProblem, match="built-in Nothing"):
        load_plugins([Nothing()], PluginSelection())


def test_installed_plugins_are_known_by_the_module_of_their_code(site: SitePackages) -> None:
    """A blocking call is attributed to its distribution by this; built-ins have the sidecar's own modules."""
    site.install("flags-good", GOOD.format(name="good"), entry="good-plugin")

    assert load("good-plugin").modules() == {"flags_good": "flags-good"}
    assert load().modules() == {}
