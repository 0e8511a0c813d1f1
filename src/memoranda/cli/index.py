"""Every command under `memoranda`: the module that holds it, and what `memoranda --help` says of it.

Help is printed from this table alone. A module is imported when its command is called, so that no command waits
for the others.
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """Where a command is, and what it is for."""

    module: str
    help: str


COMMANDS = {
    "tour": Entry("touring", "Show the whole product in two minutes, on a memory that is gone afterwards."),
    "serve": Entry("serving", "Answer requests over HTTP until stopped."),
    "mcp": Entry("mcp", "Answer an MCP client over stdin and stdout until it leaves."),
    "run": Entry("running", "Talk to an agent, or run a machine or a workflow."),
    "check": Entry("checking", "Look for everything that is wrong with a program."),
    "format": Entry("checking", "Write a program in its canonical layout."),
    "test": Entry("testing", "Run the tests of agents, machines and workflows."),
    "approve": Entry("approving", "Approve or refuse the step that a run waits at, and go on."),
    "resume": Entry("approving", "Go on with a run that waits: deliver its event, or see whether its time is over."),
    "cancel": Entry("approving", "End a run that waits, and forget what it kept for itself."),
    "replay": Entry("replaying", "Take the steps of a run again, on what was recorded of it."),
    "workflows": Entry("bundles", "Workflows: moved from memory to memory, with the definitions they name."),
    "facts": Entry("facts", "Facts: one JSON value at a key, with its versions."),
    "blocks": Entry("blocks", "Memory blocks: texts of a user that agents see or search, replaced whole."),
    "sleep": Entry("sleeping", "Sleep-time memory: what conversations taught, and how to take it back."),
    "definitions": Entry("definitions", "Definitions: what the value at a key must look like."),
    "remember": Entry("remembering", "Remember a text, so that recall finds it by what it means."),
    "ingest": Entry("ingest", "Remember what files hold: JSON Lines, text and Markdown."),
    "recall": Entry("recall", "Find what was remembered, by meaning and by words."),
    "entries": Entry("remembering", "List what was remembered, in the order it came."),
    "forget": Entry("remembering", "Forget one entry, so that it is no longer recalled."),
    "collections": Entry("collections", "Collections: where entries are kept, and what embeds them."),
    "ledger": Entry("ledger", "The ledger: what happened, in order, provably."),
    "permissions": Entry("permissions", "Permissions: who may do what."),
    "keys": Entry("keys", "Keys: who may call the server, and as whom."),
    "approvals": Entry("approvals", "Approvals: what waits for a decision."),
    "runs": Entry("runs", "Runs: what machines and workflows did, and where they stand."),
    "sessions": Entry("sessions", "Sessions: memory that ends with them."),
    "erase": Entry("upkeep", "Remove everything of a user or another subject."),
    "sweep": Entry("upkeep", "Remove what has expired."),
    "export": Entry("transfer", "Write facts, entries and definitions to a file."),
    "import": Entry("transfer", "Read what an export holds, all or nothing."),
    "doctor": Entry("doctor", "Check the database for problems."),
    "config": Entry("config", "Configuration: what is in force."),
}
"""Commands and groups of commands, in the order in which they are shown."""
