"""Several processes on one database: what one began another goes on with."""

from __future__ import annotations

import httpx

API = "/api/v1"


def test_sessions_and_runs_go_on_in_whichever_process_is_asked(tmp_path, programs_in, serving):
    folders = programs_in(tmp_path)
    with serving(tmp_path / "memory.db", "--workers", "2", **folders) as one:
        headers = {"Authorization": f"Bearer {one.key_for('ada')}"}

        def ask(method, path, **body):
            # A connection of its own each time: it may reach either process.
            answer = httpx.request(method, f"{one.address}{API}{path}", headers=headers, json=body, timeout=120)
            assert answer.status_code in (200, 201), answer.text
            return answer.json()

        for number in range(6):
            session = ask("POST", "/agents/Usher/sessions")["id"]
            assert ask("POST", f"/sessions/{session}/messages", text=f"row {number}")["status"] == "completed"
            run = ask("POST", "/workflows/ask_name/runs")["id"]
            assert ask("POST", f"/runs/{run}/deliver", payload={"text": "Kim"})["status"] == "completed"
        assert len(ask("GET", "/runs")["runs"]) == 6
