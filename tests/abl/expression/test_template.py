"""What templates render, one row for each rule."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda.abl.expression.compiler import compile_template, render
from memoranda.errors import LimitExceeded
from memoranda.lang.expression.dialect import Bounds, ExpressionRun

INN: dict[str, Any] = {
    "name": "Ada",
    "fee": 336.0,
    "tax": 36.5,
    "vip": True,
    "nothing": None,
    "list": [1, "b", None],
    "room": {"view": "sea", "beds": 2},
    "offers": [{"name": "Pier", "price": 80.0}, {"name": "Dune", "price": 95.5, "fee": 5}],
    "grid": [{"row": [1, 2]}, {"row": [3]}],
    "words": ["a", "b"],
    "braces": "{{name}} {{#if vip}}x{{/if}}",
}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("plain", "plain"),
        ("Hi {{name}}!", "Hi Ada!"),
        ("{{ name }}", "Ada"),
        ("{{room.view}} {{room.beds}}", "sea 2"),
        ("Total: ${{fee}} (${{tax}} tax)", "Total: $336 ($36.50 tax)"),
        ("[{{unset}}{{nothing}}{{room.x.y}}]", "[]"),
        ("{{vip}} {{list}} {{room}}", 'true [1,"b",null] {"view":"sea","beds":2}'),
        ("{{offers.length}} {{offers[1].name}}", "2 Dune"),
        ("{{UPPER(name)}} {{COALESCE(unset, 'guest')}}", "ADA guest"),
        ("{{FORMAT_CURRENCY(fee, 'USD')}}", "$336.00"),
        ("{{add 1 2}} {{sub 5 1}} {{mul 2 room.beds}} {{div 9 2}}", "3 4 4 4.5"),
        ("{{upper name}} {{round tax}}", "ADA 37"),
        ("{{fee + 1}}", "337"),
        ("{name} { name } {{ {a: 1} }}", '{name} { name } {"a":1}'),
        ("{{{name}}}", "Ada"),
        ("\\{{name}} {{name}}", "{{name}} Ada"),
        ("<b>{{'<i>&'}}</b>", "<b><i>&</b>"),
        ("{{'}}'}} {{\"it's\"}}", "}} it's"),
        ("a{{! a note }}b", "ab"),
        ("{{name}}'s and {{name}}'s", "Ada's and Ada's"),
        ("}} }", "}} }"),
    ],
)
def test_values_are_filled_in(text: str, shown: str) -> None:
    assert render(text, INN) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{{#if vip}}yes{{/if}}", "yes"),
        ("{{#if nothing}}yes{{/if}}", ""),
        ("{{#if nothing}}yes{{else}}no{{/if}}", "no"),
        ("{{#if fee > 100 AND name IS SET}}yes{{else}}no{{/if}}", "yes"),
        ("{{#if nothing}}a{{else if vip}}b{{else}}c{{/if}}", "b"),
        ("{{#if nothing}}a{{else if unset}}b{{else}}c{{/if}}d", "cd"),
        ("{{#if vip}}{{#if nothing}}a{{else}}b{{/if}}c{{/if}}", "bc"),
        ("{{#each words}}{{this}},{{/each}}", "a,b,"),
        ("{{#each words}}{{@index}}{{this}}{{#if @last}}.{{else}}, {{/if}}{{/each}}", "0a, 1b."),
        ("{{#each offers}}{{add @index 1}}. {{name}} {{this.price}}; {{/each}}", "1. Pier 80; 2. Dune 95.5; "),
        ("{{#each offers}}{{fee}} {{/each}}{{fee}}", "336 5 336"),
        ("{{#each offers}}{{name}} for {{room.view}} {{/each}}{{name}}", "Pier for sea Dune for sea Ada"),
        ("{{#each grid}}{{#each row}}{{this}}{{/each}}|{{/each}}", "12|3|"),
        ("{{#each grid}}{{#each row}}{{@index}}{{/each}}{{@index}}|{{/each}}", "010|01|"),
        ("{{#each room}}{{@key}}={{this}} {{/each}}", "view=sea beds=2 "),
        ("{{#each nothing}}x{{/each}}", ""),
        ("{{#each name}}x{{/each}}", ""),
        ("{{#each unset}}x{{else}}none{{/each}}", "none"),
        ("{{#each [1, 2]}}{{@first}} {{/each}}", "true false "),
    ],
)  # fmt: skip
def test_blocks(text: str, shown: str) -> None:
    assert render(text, INN) == shown


def test_a_field_that_is_null_hides_the_one_outside() -> None:
    assert render("{{#each a}}[{{x}}{{y}}]{{/each}}", {"a": [{"x": None}], "x": "out", "y": "side"}) == "[side]"


def test_a_tag_alone_on_its_line_takes_the_line_with_it() -> None:
    text = "We have {{offers.length}}:\n{{#each offers}}\n{{add @index 1}}. {{name}}\n{{/each}}\nWhich one?"

    assert render(text, INN) == "We have 2:\n1. Pier\n2. Dune\nWhich one?"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\n  {{#if vip}}  \nb\n\t{{else}}\nc\n{{/if}}\nd", "a\nb\nd"),
        ("a\r\n{{#if vip}}\r\nb\r\n{{/if}}\r\nc", "a\r\nb\r\nc"),
        ("a\n{{! note }}\nb", "a\nb"),
        ("a {{#if vip}}\nb\n{{/if}} c", "a \nb\n c"),
        ("a\n{{#if vip}}{{/if}}\nb", "a\n\nb"),
        ("a\n{{name}}\nb", "a\nAda\nb"),
        ("{{#if vip}}\na\n{{/if}}", "a"),
        ("{{#if vip}}\na\n{{/if}}\n", "a\n"),
        ("a\n{{#if nothing}}\nb\n{{/if}}", "a"),
        ("{{#if vip}}a\n{{/if}}", "a"),
    ],
)
def test_lines_of_tags(text: str, shown: str) -> None:
    assert render(text, INN) == shown


def test_what_a_user_typed_stays_text() -> None:
    assert render("You said: {{braces}}", INN) == "You said: {{name}} {{#if vip}}x{{/if}}"
    assert render("{{#each said}}{{this}}{{/each}}", {"said": ["{{name}}"], "name": "Ada"}) == "{{name}}"
    assert render("{{'{{braces}}'}}", INN) == "{{name}} {{#if vip}}x{{/if}}"


def test_a_template_is_compiled_once_and_rendered_often() -> None:
    template = compile_template("{{#each a}}{{this}}{{/each}}")

    assert [template.render({"a": list(range(count))}) for count in range(4)] == ["", "0", "01", "012"]


def test_loops_are_stopped() -> None:
    many = {"a": list(range(400))}
    twice = "{{#each a}}{{#each a}}{{#each a}}{{/each}}{{/each}}{{/each}}"

    with pytest.raises(LimitExceeded) as caught:
        render(twice, many)
    assert caught.value.limit == 100_000
    assert render("{{#each a}}{{#each a}}{{/each}}{{/each}}", {"a": list(range(300))}) == ""


@pytest.mark.parametrize("text", ["{{#each a}}12345678{{/each}}", "{{#each a}}{{b}}{{/each}}", "{{b}}{{b}}{{b}}"])
def test_the_output_is_bounded(text: str) -> None:
    template = compile_template(text)
    scope = {"a": [0, 0, 0], "b": "12345678"}

    with pytest.raises(LimitExceeded):
        template.render(scope, ExpressionRun(bounds=Bounds(output=20)))
    assert len(template.render(scope, ExpressionRun(bounds=Bounds(output=24)))) == 24
