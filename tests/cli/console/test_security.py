"""Who gets into the console, and what no page, address or other site ever gets."""

import re
import ssl
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sidecar.cli.console.guard import MOST_BYTES, POLICY
from sidecar.cli.console.serving import ConsoleOptions, console_server
from sidecar.cli.console.web import MOST_FIELDS
from sidecar.cli.subagent.client import CannotOperate
from tests.support.authority import Authority
from tests.support.console_visits import a_console, hidden, served
from tests.support.operated_process import free_port
from tests.support.operators import an_operated_sidecar

PAGES = ("/now", "/board", "/board/shop", "/turns", "/turns/turn-1", "/board/shop/step?step=kill&definition=shop")
INLINE = re.compile(
    r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=|javascript:|(?:src|href|action)=\"(?:https?:)?//"
)


async def test_nothing_is_shown_without_a_session() -> None:
    """Every page leads to the form; a page that asks for a part of it is told to go there."""
    async with an_operated_sidecar() as bench, a_console(bench) as visitor:
        answers = [await visitor.get(path) for path in PAGES]
        posted = await visitor.post("/board/shop/step", {"step": "kill"})
        part = await visitor.get("/now", hx_request="true")

    assert {(each.status_code, each.headers["location"]) for each in [*answers, posted]} == {(303, "/sign-in")}
    assert (part.status_code, part.headers["hx-redirect"]) == (204, "/sign-in")


async def test_a_token_becomes_a_cookie_that_no_script_sees_and_is_in_no_page_or_address() -> None:
    """The cookie is not the token; every answer forbids everything that is not the console's own."""
    async with an_operated_sidecar() as bench, a_console(bench) as visitor:
        await bench.promoted(ramp=9999)
        await bench.sidecar.dispatch(await bench.sidecar.bind(principal="user-20"), "ask_shop")
        token = bench.token()
        entered = await visitor.sign_in(token)
        shown = [await visitor.get(path) for path in PAGES]
        files = [await visitor.get(f"/static/{name}") for name in ("console.js", "htmx-2.0.11.min.js")]

    cookie = next(each for each in entered.headers.get_list("set-cookie") if each.startswith("console="))
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert token not in cookie
    assert [each.status_code for each in (*shown, *files)] == [200] * (len(PAGES) + 2)
    assert {each.headers["content-security-policy"] for each in (entered, *shown, *files)} == {POLICY}
    assert {each.headers["cache-control"] for each in (entered, *shown)} == {"no-store"}
    assert [each for each in shown if token in each.text or token in str(each.url)] == []
    assert [INLINE.findall(each.text) for each in shown] == [[]] * len(PAGES)


@pytest.mark.parametrize(("role", "said"), [("breaker", "ROLE_REQUIRED"), ("automation", "ROLE_REQUIRED")])
async def test_a_role_that_may_not_look_inside_does_not_get_in(role: str, said: str) -> None:
    """The sidecar decides that, and its words are shown."""
    async with an_operated_sidecar() as bench, a_console(bench) as visitor:
        answer = await visitor.sign_in(bench.token(role))

    assert (answer.status_code, said in answer.text, "console=" in str(answer.headers)) == (403, True, False)


async def test_a_token_that_expires_ends_the_session_and_so_does_signing_out() -> None:
    """The next page leads to the form, and the old cookie is worth nothing."""
    async with an_operated_sidecar() as bench, a_console(bench) as visitor:
        await visitor.sign_in(bench.token())
        page = await visitor.get("/board")
        key = visitor.client.cookies["console"]
        out = await visitor.post("/sign-out", hidden(page))
        again = await visitor.get("/board", cookie=f"console={key}")
        await visitor.sign_in(bench.token())
        bench.clock.time += timedelta(hours=2)
        late = await visitor.get("/board")

    assert [each.headers.get("location") for each in (out, again, late)] == ["/sign-in"] * 3


async def test_a_form_of_another_site_does_nothing() -> None:
    """Neither without the token of the session, nor with that of another one; signing in neither."""
    async with an_operated_sidecar() as bench, a_console(bench) as visitor:
        await bench.promoted(ramp=500)
        before = await bench.audit()
        await visitor.sign_in(bench.token())
        path = "/board/shop/step?step=kill&definition=shop"
        fields = hidden(await visitor.get(path)) | {"do": "take", "reason": "x", "confirmed": "1"}
        refused = [await visitor.post(path, fields | {"form_token": given}) for given in ("", "another")]
        login = await visitor.post("/sign-in", {"token": bench.token(), "form_token": ""})
        after = await bench.audit()

    assert [each.status_code for each in (*refused, login)] == [403, 403, 403]
    assert len(after) == len(before)


async def test_a_name_that_is_not_the_consoles_and_a_large_body_are_refused_before_anything_is_read() -> None:
    """A page elsewhere whose name resolves to the loopback gets nothing, with whatever cookie."""
    async with an_operated_sidecar() as bench, a_console(bench) as visitor:
        await visitor.sign_in(bench.token())
        foreign = await visitor.get("/board", host="evil.example")
        local = await visitor.get("/board", host="localhost:1")
        large = await visitor.post("/sign-in", {"token": "x" * MOST_BYTES})

    assert [each.status_code for each in (foreign, local, large)] == [421, 200, 413]


async def test_a_form_that_no_page_of_the_console_sends_is_refused() -> None:
    """A step that does not exist, and more fields than any form has."""
    async with an_operated_sidecar() as bench, a_console(bench) as visitor:
        await bench.promoted()
        await visitor.sign_in(bench.token())
        unknown = await visitor.take("/board/shop/step?step=kill&definition=shop", step="launch")
        many = await visitor.post("/board/shop/step", {f"field-{number}": "" for number in range(MOST_FIELDS + 1)})

    assert ("there is no step launch" in unknown.text, many.status_code) == (True, 400)


async def test_a_bearer_that_comes_with_the_request_signs_in() -> None:
    """That of a proxy which authenticates operators; a wrong one leads to the form."""
    async with an_operated_sidecar() as bench, a_console(bench) as visitor:
        wrong = await visitor.get("/board", authorization="Bearer rt1.wrong")
        right = await visitor.get("/board", authorization=f"Bearer {bench.token('viewer')}")

    assert (wrong.status_code, right.status_code) == (303, 200)
    assert "ada@example (viewer)" in right.text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"listen": "0.0.0.0:8700"}, "not a loopback"),
        ({"listen": "8700"}, "a host and a port"),
        ({"listen": "127.0.0.1:8700", "certificate": Path("tls.crt")}, "belong together"),
        ({"listen": "127.0.0.1:8700", "targets": ("sidecar.example:443",)}, "unencrypted"),
    ],
)
def test_an_address_that_would_show_tokens_to_the_network_is_refused(options: dict[str, Any], said: str) -> None:
    """Both ways: of browsers to the console, and of the console to a sidecar."""
    with pytest.raises(CannotOperate, match=said):
        console_server(ConsoleOptions(**({"targets": ("unix:/run/s.sock",)} | options)))


async def test_over_https_the_cookie_is_only_for_this_host(tmp_path: Path) -> None:
    """`Secure`, and a name that no other host of the domain can set."""
    authority = Authority()
    files = authority.issue("localhost").written(tmp_path)
    async with an_operated_sidecar() as bench:
        options = ConsoleOptions(
            (f"unix:{bench.sidecar.folder / 'operators.sock'}",),
            f"localhost:{await free_port()}",
            certificate=files.certificate_file,
            key=files.key_file,
        )
        async with served(options, verify=ssl.create_default_context(cafile=tmp_path / "ca.pem")) as visitor:
            entered = await visitor.sign_in(bench.token())
            page = await visitor.get("/board")

    cookies = entered.headers.get_list("set-cookie")
    assert [each for each in cookies if each.startswith("__Host-console=") and "; Secure" in each]
    assert page.status_code == 200
    assert page.headers["strict-transport-security"]
