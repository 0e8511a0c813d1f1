"""Errors in, pages that say what happened and what to do out; who is not signed in is led to where that is done."""

from __future__ import annotations

import msgspec
from litestar import Response

from memoranda.errors import Unauthenticated
from memoranda.server.admin.desk import OTHER_KEY, Desk
from memoranda.server.admin.rendering import address, answer, redirect, render
from memoranda.server.problems import AnyRequest, problem_of
from memoranda.wire.problems import decode_problem


def respond_with_page(request: AnyRequest, error: Exception) -> Response[bytes]:
    """Return the page of a request that failed; Litestar calls this for every exception below `/admin`."""
    request.scope["state"]["problem"] = error
    if isinstance(error, Unauthenticated):
        return _lead_to_entrance(request)
    status, body, headers = problem_of(error, _request_id(request), request)
    problem, details = decode_problem(body)
    if problem.code == "denied" and "capability" in details:
        # A grant, which the gate advises, is for programs: it does not widen what a key may.
        problem = msgspec.structs.replace(problem, hint=OTHER_KEY)
    desk: object = request.scope["auth"] if "auth" in request.scope else None
    if isinstance(desk, Desk):
        page = desk.show("failure.html", section="", status=status, problem=problem)
    else:
        page = answer(render("failure_outside.html", problem=problem), status=status)
    page.headers.update({name: value for name, value in headers.items() if name != "WWW-Authenticate"})
    return page


def _request_id(request: AnyRequest) -> str:
    return request.scope["state"].get("request_id", "")


def _lead_to_entrance(request: AnyRequest) -> Response[bytes]:
    """Lead to the entrance, and from there back; what a form held is lost, which is why it is not sent again."""
    seen = request.url.path if request.method == "GET" else "/admin"
    query = request.scope["query_string"].decode("latin-1") if request.method == "GET" else ""
    where = address("/sign-in", onwards=seen + (f"?{query}" if query else ""))
    if request.headers.get("hx-request"):
        # A part of a page is waited for: the entrance would be put in its place, if the browser followed by itself.
        return answer("", status=401, headers={"HX-Redirect": where})
    return redirect(where)
