"""Run every benchmark, each in its own environment, and write the pages, the pictures and the table of all targets.

`make bench` runs it. What each prints is shown as it comes, and written into its page in `docs/benchmarks/`, between
the marks on that page; the text around them stays. The exit code is 0 whether targets are met or missed, and 1
when a benchmark failed.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report import Line

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "benchmarks"
BEGIN, END = "<!-- printed: begin -->", "<!-- printed: end -->"


@dataclass(frozen=True)
class Bench:
    """A benchmark: its program, its environment, and the page with its results."""

    name: str
    program: str
    page: str
    environment: str
    takes_data: bool = False
    """Whether it is given the conversations."""
    pictures: tuple[tuple[str, str, str], ...] = ()
    """Options, files and descriptions of pictures beside the one of its targets."""

    @property
    def python(self) -> Path:
        """The interpreter of its environment."""
        return ROOT / self.environment / "bin" / "python"


BENCHES = (
    Bench("bench-facts", "facts.py", "facts", ".venv-bench"),
    Bench(
        "bench-recall",
        "recall.py",
        "recall",
        ".venv-bench-recall",
        pictures=(("--curve", "growth.svg", "how the times grow with the entries"),),
    ),
    Bench("bench-quality", "quality.py", "quality", ".venv", takes_data=True),
    Bench("bench-memory", "memory.py", "memory", ".venv", takes_data=True),
    Bench("bench-abl", "abl.py", "abl", ".venv-bench"),
    Bench(
        "bench-mashin",
        "mashin.py",
        "mashin",
        ".venv",
        pictures=(("--parts", "mashin-parts.svg", "where the time of a step goes"),),
    ),
    Bench(
        "bench-workflow",
        "workflow.py",
        "workflows",
        ".venv",
        pictures=(("--parts", "workflows-parts.svg", "where the time of a step goes"),),
    ),
    Bench(
        "bench-server",
        "server.py",
        "server",
        ".venv",
        pictures=(
            ("--curve", "server-memory.svg", "the memory of the server"),
            ("--tails", "server-tails.svg", "the slowest answers, by connections"),
        ),
    ),
)


@dataclass(frozen=True)
class Result:
    """The result of one benchmark."""

    bench: Bench
    lines: list[Line]
    about: dict[str, str]
    minutes: float


def main() -> int:
    """Run the benchmarks that the command line asks for, write them down, and say what was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller counts; nothing is written down")
    parser.add_argument("--only", default="", metavar="A,B", help=f"of {','.join(one.page for one in BENCHES)}")
    parser.add_argument("--data", type=Path, metavar="FILE", help="the conversations for quality and memory")
    parser.add_argument(
        "--onnx", type=Path, metavar="FOLDER", help="an embedder to measure beside the default in quality"
    )
    asked = parser.parse_args()
    wanted = [name for name in asked.only.split(",") if name] or [one.page for one in BENCHES]
    chosen = [one for one in BENCHES if one.page in wanted and (one.page != "quality" or asked.data)]
    if "quality" in wanted and not asked.data:
        print("quality is left out: name the conversations with --data (see bench/README.md)")
    results: list[Result] = []
    failed: list[str] = []
    for number, bench in enumerate(chosen, 1):
        print(f"\n{'═' * 8} {number} of {len(chosen)}: {bench.name}\n", flush=True)
        result = run(bench, quick=asked.quick, data=asked.data, onnx=asked.onnx)
        if result is None:
            failed.append(bench.name)
        else:
            results.append(result)
    if results and not asked.quick:
        write_summary(results)
    return conclude(results, failed)


def run(bench: Bench, *, quick: bool, data: Path | None, onnx: Path | None) -> Result | None:
    """Run one benchmark, showing what it prints; None where it failed."""
    found = ROOT / "build" / "bench" / f"{bench.page}.json"
    found.parent.mkdir(parents=True, exist_ok=True)
    found.unlink(missing_ok=True)
    command = [str(bench.python), str(ROOT / "bench" / bench.program), "--json", str(found)]
    if bench.takes_data and data:
        command.append(str(data))
    if bench.page == "quality" and onnx:
        command += ["--onnx", str(onnx)]
    if quick:
        command.append("--quick")
    else:
        command += ["--plot", str(PAGES / f"{bench.page}.svg")]
        command += [word for option, file, _ in bench.pictures for word in (option, str(PAGES / file))]
    began = time.perf_counter()
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    printed: list[str] = []
    for line in child.stdout:
        print(line, end="", flush=True)
        printed.append(line)
    child.wait()
    # Some leave with 1 when a target is missed; only one that has written nothing down has failed.
    if not found.exists():
        return None
    told: dict[str, Any] = json.loads(found.read_text(encoding="utf-8"))
    lines = [Line(**{name: value for name, value in line.items() if name != "met"}) for line in told["lines"]]
    result = Result(bench, lines, told["about"], (time.perf_counter() - began) / 60)
    if not quick:
        write_page(result, "".join(printed))
    return result


def write_page(result: Result, printed: str) -> None:
    """Put what a benchmark printed between the marks of its page."""
    page = PAGES / f"{result.bench.page}.md"
    text = page.read_text(encoding="utf-8")
    pictures = [("how far each target was reached", f"{result.bench.page}.svg")]
    pictures += [(words, file) for _, file, words in result.bench.pictures]
    inside = [
        f"What `make {result.bench.name}` printed on {result.about['date']}. {counted(result.lines)}",
        *(f"![{words}]({file})" for words, file in pictures),
        f"```text\n{printed.strip()}\n```",
    ]
    marked = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    if not marked.search(text):
        raise SystemExit(f"{page} has no place for what is printed: {BEGIN} … {END}")
    whole = f"{BEGIN}\n" + "\n\n".join(inside) + f"\n{END}"
    page.write_text(marked.sub(lambda _: whole, text, count=1), encoding="utf-8")


def write_summary(results: list[Result]) -> None:
    """Write the page of all targets; a benchmark that did not run now keeps its part."""
    page = PAGES / "index.md"
    text = page.read_text(encoding="utf-8")
    for result in results:
        rows = [
            f"| {line.what} | {line.figure} | {line.target_text} | {line.verdict} |"
            for line in result.lines
            if line.target is not None
        ]
        about = result.about
        inside = [
            f"[{result.bench.page}]({result.bench.page}.md): {counted(result.lines)} {about['date']}, "
            f"{about['machine']}, Python {about['Python']}, Memoranda {about['Memoranda']}; {about['before']}.",
            "\n".join(["| what | figure | target | |", "|---|---|---|---|", *rows]),
            f"![how far each target was reached]({result.bench.page}.svg)",
        ]
        begin, end = f"<!-- {result.bench.page}: begin -->", f"<!-- {result.bench.page}: end -->"
        whole = f"{begin}\n" + "\n\n".join(inside) + f"\n{end}"
        text = re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _, whole=whole: whole, text, flags=re.DOTALL)
    page.write_text(text, encoding="utf-8")


def counted(lines: list[Line]) -> str:
    """Return how many targets were met, and how many were not."""
    met, missed = (sum(line.met is wanted for line in lines) for wanted in (True, False))
    void = sum(bool(line.void) for line in lines)
    return f"**{met} targets met, {missed or 'none'} missed{f', {void} void' if void else ''}.**"


def conclude(results: list[Result], failed: list[str]) -> int:
    """Print all that was missed, by benchmark."""
    print(f"\n{'═' * 8} all targets\n")
    for result in results:
        print(f"{result.bench.name}: {counted(result.lines).strip('*')} {result.minutes:.1f} min")
        for line in result.lines:
            if line.met is False:
                print(f"    MISSED: {line.what}: {line.figure}, target {line.target_text}")
    for name in failed:
        print(f"{name}: FAILED, see above")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
