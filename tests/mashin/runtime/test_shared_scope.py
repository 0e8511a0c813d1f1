"""`scope` of `remember` and `recall`: a collection that several users share."""

from __future__ import annotations

import pytest

import memoranda
from memoranda.mashin.formatter import format_text

PAIR = """
accepts
  note as text, is required
ensures
  allowed to memory
implements
  remember keep
    content: input.note
    collection: "kb"
    scope: "{scope}"
  recall found
    query: input.note
    collection: "kb"
    scope: "{scope}"
  compute said
    found.results.map(one => one.content)
"""


@pytest.mark.parametrize(("scope", "path"), [("shared", ""), ("(shared)", ""), ("project:atlas", "project:atlas")])
def test_a_step_uses_the_scope_that_it_names_whoever_it_runs_for(load, memory, scope, path):
    machine = load(PAIR.format(scope=scope))
    assert machine.run({"note": "north"}, user="ada").output == ["north"]
    assert sorted(machine.run({"note": "south"}, user="bo").output) == ["north", "south"]
    assert [one.content for one in memory.at(path).entries(collection="kb")] == ["north", "south"]
    for user in ("ada", "bo"):
        assert memory.scope(user=user).entries(collection="kb") == []
    steps = [event.detail for event in machine.run({"note": "east"}, user="bo").events if event.kind == "step_record"]
    assert [one.get("scope") for one in steps] == [scope, scope, None]


def test_the_gate_decides_about_the_scope_that_a_step_names(load, memory):
    machine = load(PAIR.format(scope="project:atlas"))
    memory.roles.define("onlooker", allow=("runs",), own=("memory.read",))
    memory.roles.define("clerk", allow=("runs",), own=("memory",))
    onlooker, clerk = (memory.acting_as("user:ada", role=role) for role in ("onlooker", "clerk"))
    for handle in (onlooker, clerk):
        refused = machine.on(handle).run({"note": "north"}, user="ada")
        assert (refused.error.type, refused.error.step) == ("permission_denied", "keep")
    memory.permissions.grant("user:ada", "memory", scope=memoranda.Scope.of(project="atlas"))
    # A grant adds to a role only what the role may do in one's own memory.
    refused = machine.on(onlooker).run({"note": "north"}, user="ada")
    assert (refused.error.type, refused.error.step) == ("permission_denied", "keep")
    assert memory.at("project:atlas").entries(collection="kb") == []
    assert machine.on(clerk).run({"note": "north"}, user="ada").output == ["north"]


def test_a_person_who_approves_a_step_sees_the_scope(load, memory):
    text = PAIR.format(scope="project:atlas").replace("allowed to memory", "requires approval for memory.write")
    run = load(text.replace("implements", "  allowed to memory.read\nimplements", 1)).run({"note": "north"}, user="ada")
    assert run.waiting.about["scope"] == "project:atlas"


def test_a_run_that_resumes_and_one_that_is_replayed_use_the_same_scope(load, memory):
    text = PAIR.format(scope="shared").replace("  recall found", '  wait for go\n    event: "go"\n  recall found')
    machine = load(text)
    run = machine.run({"note": "north"}, user="ada")
    assert run.status == "waiting"
    assert run.deliver({}).output == ["north"]
    assert machine.replay(run.id).same


def test_a_scope_is_formatted_as_any_other_key():
    text = f"machine desk{PAIR.format(scope='project:atlas')}"
    usual = format_text(text)
    assert usual.count('      scope: "project:atlas"\n') == 2 and format_text(usual) == usual
