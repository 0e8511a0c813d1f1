"""The application of the admin pages, and the page that shows an error."""

from __future__ import annotations

import msgspec
from litestar import Litestar, Response, Router
from litestar.datastructures import State
from litestar.di import Provide

from memoranda.api.memory import Memory
from memoranda.errors import NEUTRAL_WORDS, Unauthenticated
from memoranda.server.admin import sessions
from memoranda.server.admin.context import OTHER_KEY, PageContext, current_context
from memoranda.server.admin.html import address, html_response, redirect, render
from memoranda.server.admin.pages import activity, blocks, collections, definitions, facts
from memoranda.server.auth.rate_limit import FailedAttempts, RateLimit
from memoranda.server.middleware import compress
from memoranda.server.problems import AnyRequest, problem_of
from memoranda.server.programs import Programs
from memoranda.server.requests import StrictRequest
from memoranda.server.responses import handlers_in
from memoranda.server.settings import Settings
from memoranda.wire.problems import decode_problem

_PAGES = (sessions, definitions, facts, blocks, collections, activity)


def create_pages(settings: Settings, memory: Memory, programs: Programs, attempts: FailedAttempts) -> Litestar:
    """Return the application that serves the pages."""
    pages = Router("/admin", route_handlers=handlers_in(*_PAGES))
    return Litestar(
        [pages],
        state=State({"memory": memory, "attempts": attempts}, deep_copy=False),
        dependencies={"context": Provide(current_context, sync_to_thread=False)},
        middleware=[compress, sessions.Protection(memory, programs, limit=RateLimit(settings.rate, settings.burst))],
        exception_handlers={Exception: error_page},
        openapi_config=None,
        request_class=StrictRequest,
        request_max_body_size=settings.body_bytes,
        logging_config=None,
    )


def error_page(request: AnyRequest, error: Exception) -> Response[bytes]:
    """Render an error; Litestar calls this for every exception below `/admin`."""
    request.scope["state"]["problem"] = error
    if isinstance(error, Unauthenticated):
        return _redirect_to_sign_in(request)
    status, body, headers = problem_of(
        error, request.scope["state"].get("request_id", ""), request, words=NEUTRAL_WORDS
    )
    problem, details = decode_problem(body)
    if problem.code == "denied" and "capability" in details:
        # The gate suggests a grant, but grants are for programs and do not widen what a key may do.
        problem = msgspec.structs.replace(problem, hint=OTHER_KEY)
    context: object = request.scope["auth"] if "auth" in request.scope else None
    if isinstance(context, PageContext):
        page = context.show("failure.html", section="", status=status, problem=problem)
    else:
        page = html_response(render("failure_outside.html", problem=problem), status=status)
    page.headers.update({name: value for name, value in headers.items() if name != "WWW-Authenticate"})
    return page


def _redirect_to_sign_in(request: AnyRequest) -> Response[bytes]:
    """Redirect to the sign-in page, and from there back; the content of a form is lost."""
    seen = request.url.path if request.method == "GET" else "/admin"
    query = request.scope["query_string"].decode("latin-1") if request.method == "GET" else ""
    where = address("/sign-in", onwards=seen + (f"?{query}" if query else ""))
    if request.headers.get("hx-request"):
        # htmx waits for a fragment: on a plain redirect it would insert the sign-in page into this one.
        return html_response("", status=401, headers={"HX-Redirect": where})
    return redirect(where)
