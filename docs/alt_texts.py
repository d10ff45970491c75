"""A hook of mkdocs: gives the figures of notebooks their alt texts, which nbconvert leaves out.

They are in the metadata of the cells, which ``notebooks/render.py`` keeps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import nbformat

FIGURE = re.compile('<img src="data:image/svg')


def on_page_content(html: str, page: Any, **_: object) -> str:
    """Returns the page with an alt text for each figure, in the order of the notebook's cells."""
    if not page.file.src_path.endswith(".ipynb"):
        return html
    texts = alt_texts(Path(page.file.abs_src_path))
    return FIGURE.sub(lambda found: found[0].replace("<img", f'<img alt="{escape(next(texts))}"'), html)


def alt_texts(notebook: Path) -> Iterator[str]:
    """Yields the alt text of each figure. Raises KeyError for a cell that has none."""
    for cell in nbformat.read(notebook, as_version=4).cells:
        for output in cell.get("outputs", []):
            if "image/svg+xml" in output.get("data", {}):
                yield cell.metadata["alt"]
