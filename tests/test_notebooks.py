"""The notebooks run from the first cell to the last, and show what is kept in them."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import nbformat
import pytest

RENDER = runpy.run_path(str(Path(__file__).parents[1] / "notebooks" / "render.py"))
NOTEBOOKS: list[Path] = RENDER["NOTEBOOKS"]
PICTURE_BYTES_MAX = 150_000  # SVG; a browser gets it compressed, to a tenth

of_each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def outputs(path: Path) -> list[Any]:
    cells = nbformat.read(path, as_version=4).cells
    return [output for cell in cells if cell.cell_type == "code" for output in cell.outputs]


def test_all_notebooks_are_there() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["bytes_by_hand", "table_and_tail", "tour"]


@pytest.mark.slow
@pytest.mark.only_all
@of_each
def test_notebook_runs_and_shows_what_is_kept_in_it(path: Path) -> None:
    kept = nbformat.read(path, as_version=4)
    again = RENDER["run"](path)
    assert RENDER["text_of"](again) == RENDER["text_of"](kept), "python notebooks/render.py keeps what is shown now"


@of_each
def test_kept_pictures_are_small_and_nothing_tells_where_it_ran(path: Path) -> None:
    pictures = [each.data["image/svg+xml"] for each in outputs(path) if "image/svg+xml" in each.get("data", {})]
    assert len(pictures) >= 2
    assert max(map(len, pictures)) < PICTURE_BYTES_MAX
    texts = [each.get("text") or each.data["text/plain"] for each in outputs(path)]
    assert not [text for text in texts if "/tmp" in text or "/home" in text or str(Path.cwd()) in text]
