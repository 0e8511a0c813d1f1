"""The pages in a real browser: forms, scripts and styles, with and without JavaScript, small and dark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import memoranda

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
FITTING = ("/blocks", "/facts?scope=user:ada", "/definitions", "/ledger", "/conversations")
CUT = """() => [...document.querySelectorAll(".table")].filter(one => one.scrollWidth > one.clientWidth).map(
    one => one.outerHTML.slice(0, 200))"""
WIDER = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


def inside(box: Any, width: int) -> bool:
    """Say whether a box lies on a screen, from its left to its right, but for part of a pixel."""
    return box["x"] > -1 and box["x"] + box["width"] < width + 1


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
    page.get_by_label("API key").fill("mk_wrong_" + "x" * 40)
    page.keyboard.press("Enter")
    page.get_by_text("Sign-in failed").wait_for()
    page.get_by_label("API key").fill(house.key("ada", "member"))
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Blocks of ada").wait_for()
    page.get_by_role("link", name="Overview").click()
    assert page.get_by_role("heading", name="Overview").is_visible()
    kept = page.evaluate("() => document.cookie + JSON.stringify([localStorage, sessionStorage]) + location")
    secret = page.context.cookies()[0]["value"]
    assert "/admin" in kept and "mk_" not in kept and secret not in kept
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


def test_a_question_that_is_refused_says_so_in_place_of_the_old_answer(
    open_page: Callable[..., Any], filled: Any
) -> None:
    page = open_page()
    for path in ("/facts?scope=user:ada", "/ledger", "/collections/one?name=notes&scope=user:ada"):
        page.goto(f"/admin{path}")
        page.evaluate("() => { window.unmoved = true }")
        assert page.locator("#results table").is_visible(), path
        page.get_by_label("Scope", exact=True).fill("nonsense")
        page.keyboard.press("Enter")
        page.get_by_text("is not a part of a scope").wait_for()
        assert page.locator("#results table").count() == 0 and page.evaluate("() => window.unmoved"), path
        page.get_by_label("Scope", exact=True).fill("user:ada")
        page.keyboard.press("Enter")
        page.locator("#results table").wait_for()


def test_a_new_fact_begins_in_the_scope_that_is_shown(open_page: Callable[..., Any], filled: Any) -> None:
    filled.memory.scope(user="ben").set("shed", "green")
    page = open_page("/facts?scope=user:ada")
    page.get_by_label("Scope", exact=True).fill("user:ben")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="shed").wait_for()
    page.get_by_role("link", name="New fact").click()
    page.get_by_role("heading", name="New fact").wait_for()
    assert page.get_by_label("Scope").input_value() == "user:ben"


def test_a_block_that_is_saved_unchanged_stays_as_it_is(open_page: Callable[..., Any], filled: Any) -> None:
    text = "\n- Begins with an empty line\n\n- Ends with two  \n\n"
    blocks = filled.memory.scope(user="ben").blocks
    blocks.update("core", text, expected_updated_at=None)
    page = open_page("/blocks/one?user=ben&block=core")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Saved.").wait_for()
    assert (len(blocks.history("core")), blocks.get("core").content) == (2, text)


def test_nobody_approves_by_pressing_enter(open_page: Callable[..., Any], filled: Any) -> None:
    careful = memoranda.Policy.of(approve=("memory.write",))
    with pytest.raises(memoranda.ApprovalRequired):
        filled.memory.acting_as("agent:porter", policy=careful).scope(user="ada").set("door", "open")
    page = open_page("/approvals", user="eve")
    page.get_by_label("Reason").fill("not at night")
    page.keyboard.press("Enter")
    page.reload()
    assert filled.memory.approvals.list()[0].status == "pending"
    page.get_by_label("Reason").fill("not at night")
    page.get_by_role("button", name="Refuse").click()
    page.get_by_text("Refused.", exact=True).wait_for()
    assert filled.memory.scope(user="ada").get("door") is None


def test_two_windows_on_one_block_show_the_slower_one_both_texts(open_page: Callable[..., Any], filled: Any) -> None:
    slow, fast = (open_page("/blocks/one?user=ada&block=core", user=user) for user in ("slow", "fast"))
    fast.get_by_label("Text").fill("- Has two kilns")
    fast.get_by_role("button", name="Save").click()
    fast.get_by_text("Saved.").wait_for()
    slow.get_by_label("Text").fill("- Sold the kiln")
    assert slow.get_by_text("15 of 4,000 characters").is_visible()
    slow.get_by_role("button", name="Save").click()
    slow.get_by_text("changed by someone else").wait_for()
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
    page.get_by_label("Query").fill("when is the ferry")
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
    page.get_by_role("button", name="Restore version 1").click()
    page.get_by_text("Restored.", exact=True).wait_for()
    assert filled.memory.scope(user="ada").value("profile.language") == "en"
    page.goto("/admin/erase")
    page.get_by_label("User").fill("ada")
    page.get_by_label("Repeat the id").fill("ada")
    page.get_by_role("button", name="Erase this user").click()
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
    ada = filled.memory.scope(user="ada")
    ada.set("shelf." * 30 + "end", "deep")
    filled.memory.scope(user="ada", agent="porter" * 12).blocks.update("core", "- Tall", expected_updated_at=None)
    page = open_page()
    for path in SECTIONS:
        page.goto(f"/admin{path}")
        for width in (1280, 360):
            page.set_viewport_size({"width": width, "height": 740})
            assert page.evaluate(WIDER) <= 0, f"{path} is wider than {width}"
            if width == 1280 and path in FITTING:
                assert page.evaluate(CUT) == [], f"a table of {path} is wider than its frame"
            current = page.locator(".side [aria-current]")
            assert current.count() == 0 or inside(current.bounding_box(), width), f"{path} is not seen in the row"
        assert page.evaluate(UNLABELLED) == [], path
        assert page.locator("h1").count() == 1, path


def test_the_list_of_routes_fits_a_small_screen_too(open_page: Callable[..., Any], house: Any) -> None:
    page = open_page(viewport={"width": 360, "height": 740})
    page.goto(f"{house.address}/docs")
    assert page.get_by_text("/api/v1/memory/facts/{key}", exact=True).first.is_visible()
    assert page.evaluate(WIDER) <= 0


def test_pages_are_dark_where_people_want_them_so(open_page: Callable[..., Any]) -> None:
    page = open_page()
    grounds: list[str] = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        grounds.append(page.evaluate("() => getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(246, 247, 246)", "rgb(16, 20, 19)"]
