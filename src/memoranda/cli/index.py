"""The table of all commands: the module of each, and its line in `memoranda --help`.

Help is printed from this table alone. Modules are imported on demand, so that no command loads the others.
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """The module and the help of a command or group."""

    module: str
    help: str


COMMANDS = {
    "tour": Entry("tour", "Show the whole product in two minutes, with a temporary memory."),
    "serve": Entry("serve", "Serve the memory over HTTP until stopped."),
    "mcp": Entry("serve", "Serve an MCP client over stdin and stdout."),
    "run": Entry("run", "Chat with an agent, or run a machine or a workflow."),
    "check": Entry("check", "Check programs for errors."),
    "format": Entry("check", "Format programs in their canonical layout."),
    "test": Entry("check", "Run the tests of agents, machines and workflows."),
    "approve": Entry("runs", "Approve or refuse the step that a run waits for, and continue it."),
    "resume": Entry("runs", "Resume a waiting run: deliver its event, or check its deadline."),
    "cancel": Entry("runs", "Cancel a waiting run, and delete its own memory."),
    "replay": Entry("runs", "Replay the steps of a run from its record."),
    "workflows": Entry("transfer", "Workflows: copied between memories, with the definitions they use."),
    "facts": Entry("facts", "Facts: a JSON value at a key, with its versions."),
    "blocks": Entry("blocks", "Memory blocks: texts of a user that agents see or search."),
    "sleep": Entry("blocks", "Sleep-time memory: what was learned from conversations."),
    "definitions": Entry("facts", "Definitions: schemas for the values of keys."),
    "remember": Entry("entries", "Store a text so that recall finds it by meaning."),
    "ingest": Entry("ingest", "Store the contents of files: JSON Lines, text and Markdown."),
    "learn": Entry("learn", "Learn from conversations: keep their messages, and what they state."),
    "context": Entry("learn", "Show what an agent should be told now."),
    "recall": Entry("entries", "Find what is remembered, by meaning and by words."),
    "entries": Entry("entries", "List entries in the order they were stored, of one collection or of all."),
    "supersede": Entry("entries", "Replace what is no longer true: an entry, a fact or a line of a block."),
    "forget": Entry("entries", "Forget entries, facts and lines, all or nothing."),
    "reject": Entry("entries", "End a value, and keep it from coming back."),
    "withdraw": Entry("entries", "Take a rejection back."),
    "rejections": Entry("entries", "List what was rejected: who did it, when and why."),
    "probe": Entry("entries", "Show where a text is left, place by place."),
    "undo": Entry("entries", "Bring back what was forgotten or superseded, all or nothing."),
    "lineage": Entry(
        "entries",
        "Show what something was derived from, and what was derived from it, each with how far it is trusted.",
    ),
    "copy": Entry(
        "entries", "Copy an entry or a fact to another scope: the copy is trusted no more, and is forgotten with it."
    ),
    "validate": Entry(
        "entries", "Trust an entry or a fact as far as the actor is trusted, who is a user and did not write it."
    ),
    "taint": Entry(
        "entries",
        "Quarantine memory with all that was derived from it, and show which recalls and contexts had served it.",
    ),
    "collections": Entry("entries", "Collections: groups of entries with one embedder."),
    "ledger": Entry("ledger", "The ledger: a verifiable log of all changes and reads."),
    "permissions": Entry("access", "Permissions: who may do what."),
    "roles": Entry("access", "Roles: named sets of permissions, for keys and users."),
    "keys": Entry("access", "API keys: who may call the server, and as which user."),
    "approvals": Entry("access", "Approvals: requests that wait for a decision."),
    "conflicts": Entry("access", "Conflicts: writes that contradict something more trusted."),
    "quarantine": Entry("access", "Quarantine: writes that the guard held back."),
    "guard": Entry("access", "Guard: what is looked for in writes, and what then happens."),
    "runs": Entry("runs", "Runs of machines and workflows."),
    "sessions": Entry("facts", "Sessions: memory that is deleted when they end."),
    "erase": Entry("maintenance", "Erase all memory of a user or another subject."),
    "sweep": Entry("maintenance", "Delete expired memory."),
    "export": Entry("transfer", "Export facts, entries and definitions to a file."),
    "import": Entry("transfer", "Import an export, all or nothing."),
    "upgrade": Entry("maintenance", "Upgrade the database to this version."),
    "migrate": Entry("transfer", "Move all memory to another database, such as PostgreSQL."),
    "doctor": Entry("maintenance", "Check the database for problems."),
    "config": Entry("maintenance", "The current configuration."),
}
"""Commands and groups of commands, in the order in which they are shown."""
