"""`memoranda config`: what is in force, and who said so."""

from __future__ import annotations

from typing import Any

from memoranda.cli.command import Desk, command, group
from memoranda.cli.options import Config
from memoranda.cli.settings import resolve_all

app = group("config")


@command(app, "show", embeds=True, example="MEMORANDA_DB=team.db memoranda config show")
def show(
    desk: Desk,
    config: Config = None,
) -> None:
    """Show each setting, where its value came from, and the variable that can give it. Opens nothing."""
    settings = resolve_all(desk.settings, config=config)
    if desk.out.json:
        return desk.out.document(
            {one.name: {"value": one.shown, "origin": one.origin, "variable": one.variable} for one in settings.all}
        )
    rows = [(one.name, _text(one.shown), one.origin, one.variable) for one in settings.all]
    desk.out.table(("setting", "value", "from", "variable"), rows, folded=("value",))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(value) if isinstance(value, tuple) else str(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
