"""A demo server with users, memory and programs to try; it needs no model key.

`make serve` runs it. Its data stays in a folder and is used again the next time. Settings of the environment apply as
for `memoranda serve`: with `MEMORANDA_DB` it serves that database, without a demo.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from dataclasses import fields
from pathlib import Path
from typing import Any

from memoranda.api.memory import Memory
from memoranda.chat.turn import chat
from memoranda.errors import MemorandaError
from memoranda.model.policy import OWNER

try:
    from memoranda.server.app import open_memory
    from memoranda.server.auth.keys import NewKey, create_key, first_key, list_keys, revoke_key
    from memoranda.server.chat_agents import CHAT_FILE, read_chat_agents
    from memoranda.server.environment import resolve, resolve_all
    from memoranda.server.launcher import serve
    from memoranda.server.settings import Settings
except ImportError as missing:
    # Run as a program, print what to do instead of a traceback.
    if __name__ != "__main__":
        raise
    sys.exit(f'error: the demo needs the package `{missing.name}`. Install it with `pip install "memoranda[server]"`')

_SETTINGS = frozenset(one.name for one in fields(Settings))

USER = "ada"
"""The user whose key is shown."""
LABEL = "demo"

_AGENTS = """\
# Agents to chat with. The model `demo:parrot` repeats what you say and lists what it knows; it needs no key.
# With a key of a provider in the environment, name one of its models instead, such as "openai:gpt-5.2".

[agents.guide]
model = "demo:parrot"
instructions = "You help people find their way around the allotments."
memory_policy = {archival_mode = "auto", archival_limit = 3}
"""
_MACHINE = """\
// Keep a line in the garden diary, and say what it says about the same plant.
machine diary "Keep a line in the garden diary"
  accepts
    plant as text, is required
    line as text, is required

  ensures
    permissions
      allowed to memory

  implements
    remember kept
      content: "${input.plant}: ${input.line}"
      collection: "diary"

    recall earlier
      query: input.plant
      collection: "diary"
      limit: 5

    compute said
      { lines: earlier.results.map(one => one.content) }
"""
_WORKFLOW = """\
# Ask when somebody comes to water, and say it back.
defs:
  ask:
    kind: task
    action: send_text_message
    inputs: {text: "='When can you water plot ' & $string($input.plot) & '?'"}
  hear:
    kind: task
    action: wait_for_reply
    inputs: {}
  confirm:
    kind: task
    action: send_text_message
    inputs: {text: "='Thank you. Noted: ' & $output.hear.text"}

flow:
  - do: ask
  - do: hear
  - do: confirm
"""
_FILES = {
    f"agents/{CHAT_FILE}": _AGENTS,
    "machines/diary.mashin": _MACHINE,
    "workflows/watering.yaml": _WORKFLOW,
}
_CORE = "- Grows beans on plot twelve\n- Waters before eight in the morning"
_ARCHIVAL = (
    "- The tap at the north gate is locked from November to March\n"
    "- Lent the long ladder to Ben on plot nine\n"
    "- The compost delivery comes on the first Friday of the month"
)
_DIARY = (
    "beans: sown in two rows along the fence",
    "beans: first flowers, bees all over them",
    "rhubarb: divided the old crown",
)
_PLOT = {
    "type": "object",
    "properties": {"number": {"type": "integer", "minimum": 1}, "sunny": {"type": "boolean"}},
    "required": ["number"],
    "additionalProperties": False,
}


def settings_in(folder: Path, **given: Any) -> Settings:
    """Return the settings of the demo in a folder, with other settings as they are given."""
    own: dict[str, Any] = {name: str(folder / name) for name in ("agents", "machines", "workflows")}
    own["db"] = str(folder / "memory.db")
    return Settings(**(own | given))


def write_programs(folder: Path) -> None:
    """Write the programs of the demo that do not exist yet."""
    for name, text in _FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            file.write_text(text, encoding="utf-8")


def fill(memory: Memory) -> None:
    """Write the memory of the demo's users, unless it exists."""
    ada = memory.acting_as(f"user:{USER}", policy=OWNER, door="demo")
    mine = ada.scope(user=USER)
    if mine.blocks.get("core") is not None:
        return
    memory.definitions.create(name="Plot", slug="plot", schema=_PLOT, scope="global")
    mine.set("plot", {"number": 12, "sunny": True})
    for line in _DIARY:
        mine.remember(line, collection="diary")
    mine.blocks.update("archival", _ARCHIVAL, expected_updated_at=None)
    memory.scope(user="ben").blocks.update("core", "- Has borrowed the long ladder", expected_updated_at=None)
    # Written last, because its existence marks the demo as complete.
    mine.blocks.update("core", _CORE, expected_updated_at=None)
    guide = read_chat_agents(_AGENTS)[0]
    chat(ada, guide, "Is the north gate tap open?", user=USER, conversation_id="welcome", message_id="first")


def new_key(memory: Memory) -> NewKey:
    """Create a key of the demo's user and revoke the previous one."""
    for key in list_keys(memory, tenant=memory.tenant):
        if key.label == LABEL and key.revoked_at is None:
            revoke_key(memory, key.id)
    return create_key(memory, tenant=memory.tenant, user=USER, role="member", label=LABEL)


def commands(address: str, token: str) -> list[str]:
    """Return three shell commands: read a block, recall, and chat."""
    key = f'-H "Authorization: Bearer {token}"'
    body = """-H "Content-Type: application/json" -d"""
    return [
        f"curl -sS {key} {address}/api/v1/memory/blocks/core",
        f"""curl -sS {key} {address}/api/v1/memory/recall {body} '{{"query": "north gate tap"}}'""",
        f"curl -sSN {key} {address}/api/v1/agent/guide/chat {body} "
        """'{"message": "Who has the ladder?", "conversation_id": "welcome", "message_id": "second"}'""",
    ]


def main(arguments: list[str] | None = None) -> int:
    """Serve the demo until stopped; return the exit code."""
    parser = ArgumentParser(prog="python -m memoranda.server.demo", description="A server with demo data.")
    parser.add_argument("--folder", type=Path, default=Path("build/demo"), help="the folder for all data")
    parser.add_argument("--host", help="default: MEMORANDA_HOST, or 127.0.0.1")
    parser.add_argument("--port", type=int, help="0 for any free port; default: MEMORANDA_PORT, or 8765")
    given = parser.parse_args(arguments)
    try:
        resolved = resolve_all(resolve(), host=given.host, port=given.port)
        settings = {one.name: one.value for one in resolved.all if one.origin != "default" and one.name in _SETTINGS}
        if "db" in settings:
            serve(Settings(**settings), announce=_announce)
        else:
            _serve(given.folder, settings)
    except MemorandaError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except PermissionError as error:
        sys.stderr.write(f"error: {error.filename} cannot be written. Make it writable, or choose another --folder\n")
        return 1
    except KeyboardInterrupt:
        pass  # Ctrl-C is how it is stopped.
    return 0


def _announce(address: str, key: NewKey | None) -> None:
    lines = [
        f"Memoranda listens on {address}",
        *([f"The key of the administrator, shown only once: {key.token}"] if key is not None else []),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def _serve(folder: Path, given: dict[str, Any]) -> None:
    write_programs(folder)
    settings = settings_in(folder, **given)
    with open_memory(settings) as memory:
        # Before any other key is created: the first one is the administrator's.
        admin = first_key(memory, admin_key=settings.admin_key or None)
        fill(memory)
        token = new_key(memory).token

    def announce(address: str, key: NewKey | None) -> None:
        lines = [
            f"Memoranda listens on {address}",
            f"All data is in {folder}",
            f"The key of {USER}, until the next start: {token}",
            *([f"The key of the administrator, shown only once: {admin.token}"] if admin is not None else []),
            "",
            "Try:",
            *(f"  {line}" for line in commands(address, token)),
            "",
            f"Admin pages: {address}/admin    sign in with one of the keys above",
            f"All routes: {address}/docs    Stop: Ctrl-C",
        ]
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()

    serve(settings, announce=announce)


if __name__ == "__main__":
    sys.exit(main())
