"""What there is to say about a workflow file in, diagnostics out that also name the path in the YAML."""

from __future__ import annotations

from memoranda.lang.diagnostics import Diagnostic, Diagnostics, Severity
from memoranda.lang.source import Span


class PathDiagnostic(Diagnostic, frozen=True):
    """A diagnostic that knows the path of what it is about, such as `defs.save.inputs.text`."""

    path: str = ""


class Notes:
    """Notes what is the matter, with its path in the message and as data."""

    def __init__(self, said: Diagnostics) -> None:
        """Put everything with the other diagnostics of a source."""
        self.said = said

    def error(self, code: str, message: str, span: Span, path: str, *, hint: str = "") -> None:
        """Note a fault that keeps the workflow from being used."""
        self._note("error", code, message, span, path, hint)

    def warning(self, code: str, message: str, span: Span, path: str, *, hint: str = "") -> None:
        """Note what is allowed and probably not meant."""
        self._note("warning", code, message, span, path, hint)

    def note(self, code: str, message: str, span: Span, path: str, *, hint: str = "") -> None:
        """Note what is good to know."""
        self._note("note", code, message, span, path, hint)

    def _note(self, severity: Severity, code: str, message: str, span: Span, path: str, hint: str) -> None:
        # A key can be as long as the file; the whole path stands in the data.
        shown = path if len(path) <= 120 else f"{path[:120]}…"
        where = f", in `{shown}`" if path and path.isprintable() else ""
        self.said.add(PathDiagnostic(code, severity, f"{message}{where}", span, hint, path=path))
