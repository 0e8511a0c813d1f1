"""`recollect config`: what is in force, and who said so."""

from __future__ import annotations

from recollect.cli.command import Desk, command, group

app = group("config")


@command(app, "show", embeds=True, example="RECOLLECT_DB=team.db recollect config show")
def show(desk: Desk) -> None:
    """Show each setting, where its value came from, and the variable that can give it. Opens nothing."""
    if desk.out.json:
        return desk.out.document(
            {
                one.name: {"value": one.value, "origin": one.origin, "variable": one.variable}
                for one in desk.settings.all
            }
        )
    rows = [
        (one.name, f"{one.value:g}" if isinstance(one.value, float) else str(one.value), one.origin, one.variable)
        for one in desk.settings.all
    ]
    desk.out.table(("setting", "value", "from", "variable"), rows, folded=("value",))
