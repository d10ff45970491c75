"""The documents as a whole: links that lead somewhere, pages that are up to date, messages that exist."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

from tests.test_layering import FOLDERS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ANY = "…"  # in a message: what differs from case to case
WORDS_MAX = 2500  # of a page, unless a short one is before it
SHORT_PAGE = {"crash_safety_evidence.md": "crash_safety.md"}  # of each longer page
FROM_ELSEWHERE = {  # Python's and Spark's own
    "No module named 'pyspark_commitlog'",
    "Failed to read log file …/commits/N. Incomplete log file in the offset commit log",
    "Failed to read log file …/offsets/N. Incomplete log file",
    "Failed to read log file …/sources/0/N. Incomplete log file",
    "No content to map due to end-of-input",
    'The data source "commitlog" cannot be written in the "ErrorIfExists" mode',
    "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: commitlog",
    "[STREAMING_CHECKPOINT_MISSING_METADATA_FILE]",
    "batch N doesn't exist",
    "…[MALFORMED_LOG_FILE]…",
}


def test_site_is_built_and_no_link_leads_nowhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "quick_start" / "index.html").exists()
    figures = [tag for page in tmp_path.rglob("*.html") for tag in re.findall(r"<img [^>]{,2000}", page.read_text())]
    assert len(figures) >= 8
    assert [tag[:80] for tag in figures if not re.search(r'alt="[^"]{40}', tag)] == []


def test_every_figure_is_drawn_and_described_in_words() -> None:
    shown = set[Path]()
    for page in DOCS.rglob("*.md"):
        for words, target in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            assert len(words) > 80, f"{page.name}: {target} needs an alt text that says what it shows"
            shown.add((page.parent / target).resolve())
    assert shown == {*(DOCS / "images").iterdir()}
    for figure in (each for each in shown if each.suffix == ".svg"):  # the others are pictures of pages
        root = ElementTree.parse(figure).getroot()
        assert [root.findtext(f"{{*}}{name}") for name in ("title", "desc")] > ["", ""], f"{figure.name} has no title"
        assert "prefers-color-scheme: dark" in figure.read_text(), f"{figure.name} cannot be read on a dark page"


def test_each_long_page_has_a_short_one_before_it() -> None:
    words = {str(page.relative_to(DOCS)): len(page.read_text(encoding="utf-8").split()) for page in DOCS.rglob("*.md")}
    assert {page: number for page, number in words.items() if number > WORDS_MAX and page not in SHORT_PAGE} == {}
    for page, before in SHORT_PAGE.items():
        assert words[before] <= WORDS_MAX < words[page], f"{page} is short enough, or {before} is too long"
        assert f"({page}" in (DOCS / before).read_text(encoding="utf-8"), f"{before} has no link to {page}"


def test_configuration_page_says_what_the_code_says() -> None:
    made = runpy.run_path(str(DOCS / "render.py"))["configuration"]()
    assert (DOCS / "configuration.md").read_text(encoding="utf-8") == made, "run python docs/render.py"


def test_every_message_of_the_failure_guide_is_one_that_the_code_has() -> None:
    lines = [line for page in DOCS.glob("failures*.md") for line in page.read_text(encoding="utf-8").splitlines()]
    cells = [line.split("|")[1] for line in lines if line.startswith("| `")]
    told = {message for cell in cells for message in re.findall("`([^`]+)`", cell)} - FROM_ELSEWHERE
    written = [text for folder in FOLDERS for text in texts(ROOT / folder)]
    assert len(told) > 70
    assert {each for each in told if not any(map(beginning(each).match, written))} == set()


def texts(folder: Path) -> list[str]:
    """Every string of the modules in a folder, neighbouring and formatted ones in one piece."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py")]
    return [text for tree in trees for node in ast.walk(tree) if (text := text_of(node)) is not None]


def text_of(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(value) or ANY for value in node.values)
    return None


def beginning(message: str) -> re.Pattern[str]:
    """Matches texts that the message may be, or the beginning of."""
    return re.compile("".join(".*" if char == ANY else re.escape(char) for char in message), re.DOTALL)
