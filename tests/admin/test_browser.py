"""The pages in a real browser: forms, scripts and styles, with and without JavaScript, small and dark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

SECTIONS = (
    "",
    "/blocks",
    "/blocks/one?user=ada&block=core",
    "/facts?scope=user:ada",
    "/facts/one?scope=user:ada&key=room",
    "/facts/new",
    "/definitions",
    "/definitions/new",
    "/definitions/keeper",
    "/definitions/keeper/delete",
    "/collections",
    "/collections/one?name=notes&scope=user:ada&query=ferry",
    "/conversations",
    "/conversations/one?user=ada&id=chat",
    "/sleep",
    "/runs",
    "/approvals",
    "/ledger",
    "/ledger/1",
    "/ledger/verify",
    "/erase",
    "/nowhere",
)
UNLABELLED = """() => [...document.querySelectorAll("input:not([type=hidden]), select, textarea, button")]
    .filter(one => !(one.labels?.length || one.textContent.trim() || one.getAttribute("aria-label")))
    .map(one => one.outerHTML)"""
WIDER = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture
def filled(house: Any) -> Any:
    ada = house.memory.scope(user="ada")
    ada.set("room", {"number": 12, "view": "a very long description " * 20})
    ada.set("profile.language", "en")
    ada.blocks.update("core", "- Has a kiln", expected_updated_at=None)
    ada.remember("The ferry leaves at nine", collection="notes")
    house.memory.definitions.create(name="Keeper", slug="keeper", schema={"type": "object"})
    house.talk("ada", "Is the ferry running?")
    return house


def test_signing_in_and_out_leaves_no_key_in_the_browser(open_page: Callable[..., Any], house: Any) -> None:
    page = open_page("/blocks", role=None)
    page.get_by_label("API key").fill("rk_wrong_" + "x" * 40)
    page.keyboard.press("Enter")
    page.get_by_text("The key was not taken").wait_for()
    page.get_by_label("API key").fill(house.key("ada", "member"))
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Blocks of ada").wait_for()
    page.get_by_role("link", name="Overview").click()
    assert page.get_by_role("heading", name="Overview").is_visible()
    kept = page.evaluate("() => document.cookie + JSON.stringify([localStorage, sessionStorage]) + location")
    secret = page.context.cookies()[0]["value"]
    assert "/admin" in kept and "rk_" not in kept and secret not in kept
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("heading", name="Sign in").wait_for()
    page.go_back()
    page.wait_for_url("**/admin/sign-in**")


def test_a_definition_is_made_and_deleted_with_help_from_the_page(open_page: Callable[..., Any], house: Any) -> None:
    page = open_page("/definitions")
    page.get_by_role("link", name="New definition").click()
    page.get_by_label("Name").fill("Tea & Cake")
    assert page.get_by_label("Slug").input_value() == "tea_cake"
    page.get_by_label("JSON schema").fill('{"type": "object", "properties": {"cups": {"type": "numbr"}}}')
    page.get_by_role("button", name="Save").click()
    fault = page.locator("#schema-fault")
    assert "$.properties.cups" in fault.inner_text()
    page.get_by_label("JSON schema").fill('{"type": ')
    assert "Not JSON yet" in page.locator("#schema-check").inner_text()
    page.get_by_label("JSON schema").fill('{"type": "object", "properties": {"cups": {"type": "integer"}}}')
    assert "Not JSON yet" not in page.locator("#schema-check").inner_text()
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Saved.").wait_for()
    assert [one.name for one in house.memory.definitions.list()] == ["Tea & Cake"]
    page.get_by_role("link", name="Delete …").click()
    button = page.get_by_role("button", name="Delete the definition and its records")
    assert button.is_disabled()
    page.get_by_label("Type tea_cake to delete it").fill("tea_cake")
    assert button.is_enabled()
    button.click()
    page.get_by_text("There are no definitions yet").wait_for()


def test_facts_are_searched_while_typing_and_the_address_follows(open_page: Callable[..., Any], filled: Any) -> None:
    page = open_page("/facts?scope=user:ada")
    assert page.get_by_role("link", name="room").is_visible()
    page.evaluate("() => { window.unmoved = true }")
    page.get_by_label("Key begins with").press_sequentially("profile")
    page.get_by_role("link", name="room").wait_for(state="detached")
    assert page.get_by_role("link", name="profile.language").is_visible()
    assert "prefix=profile" in page.url and page.evaluate("() => window.unmoved")
    page.reload()
    assert page.get_by_label("Key begins with").input_value() == "profile"


def test_two_windows_on_one_block_show_the_slower_one_both_texts(open_page: Callable[..., Any], filled: Any) -> None:
    slow, fast = (open_page("/blocks/one?user=ada&block=core", user=user) for user in ("slow", "fast"))
    fast.get_by_label("Text").fill("- Has two kilns")
    fast.get_by_role("button", name="Save").click()
    fast.get_by_text("Saved.").wait_for()
    slow.get_by_label("Text").fill("- Sold the kiln")
    assert slow.get_by_text("15 of 4,000 characters").is_visible()
    slow.get_by_role("button", name="Save").click()
    slow.get_by_text("Somebody was faster").wait_for()
    assert slow.locator("#theirs").inner_text() == "- Has two kilns"
    assert slow.get_by_label("Your text").input_value() == "- Sold the kiln"
    slow.get_by_label("Your text").fill("- Has two kilns, sold one")
    slow.get_by_role("button", name="Save mine over theirs").click()
    slow.get_by_text("Saved.").wait_for()
    assert filled.memory.scope(user="ada").blocks.get("core").content == "- Has two kilns, sold one"
    assert slow.get_by_role("cell", name="user:slow through admin").first.is_visible()


def test_a_recall_is_answered_in_place_with_its_reasons(open_page: Callable[..., Any], filled: Any) -> None:
    page = open_page("/collections/one?name=notes&scope=user:ada")
    page.evaluate("() => { window.unmoved = true }")
    page.get_by_label("What would be recalled for").fill("when is the ferry")
    page.get_by_role("button", name="Recall").click()
    page.get_by_text("Words found").wait_for()
    assert page.evaluate("() => window.unmoved") and "query=when" in page.url


def test_everything_works_without_javascript(open_page: Callable[..., Any], filled: Any) -> None:
    page = open_page("/facts?scope=user:ada", java_script_enabled=False)
    page.get_by_label("Key begins with").fill("profile")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("link", name="profile.language").click()
    page.get_by_label("Value, as JSON").fill('"fr"')
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Saved.").wait_for()
    page.get_by_role("button", name="Bring back version 1").click()
    page.get_by_text("Brought back.", exact=True).wait_for()
    assert filled.memory.scope(user="ada").value("profile.language") == "en"
    page.goto("/admin/erase")
    page.get_by_label("User").fill("ada")
    page.get_by_label("The same again").fill("ada")
    page.get_by_role("button", name="Erase everything of this user").click()
    page.get_by_text("This is the receipt").wait_for()
    assert filled.memory.scope(user="ada").get("room") is None


def test_hostile_values_run_nowhere(open_page: Callable[..., Any], house: Any) -> None:
    attack = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
    ada = house.memory.scope(user="ada")
    ada.set("room", {attack: attack})
    ada.blocks.update("core", f"- {attack}", expected_updated_at=None)
    ada.remember(attack, collection="notes")
    page = open_page()
    for path in (
        "/facts?scope=user:ada",
        "/facts/one?scope=user:ada&key=room",
        "/blocks",
        "/blocks/one?user=ada&block=core",
        "/collections/one?name=notes&scope=user:ada",
        "/collections/one?name=notes&scope=user:ada&query=taken",
    ):
        page.goto(f"/admin{path}")
        assert "document.title" in page.content() and "taken" not in page.title(), path


def test_every_page_fits_large_and_small_screens_and_every_field_has_a_name(
    open_page: Callable[..., Any], filled: Any
) -> None:
    page = open_page()
    for path in SECTIONS:
        page.goto(f"/admin{path}")
        for width in (1280, 360):
            page.set_viewport_size({"width": width, "height": 740})
            assert page.evaluate(WIDER) <= 0, f"{path} is wider than {width}"
        assert page.evaluate(UNLABELLED) == [], path
        assert page.locator("h1").count() == 1, path


def test_pages_are_dark_where_people_want_them_so(open_page: Callable[..., Any]) -> None:
    page = open_page()
    grounds: list[str] = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        grounds.append(page.evaluate("() => getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(246, 247, 246)", "rgb(16, 20, 19)"]
