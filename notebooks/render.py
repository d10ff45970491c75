"""Run the notebooks and store their output in them: ``python notebooks/render.py`` (make notebooks).

A notebook runs in this folder, in its own kernel. Text, tables and figures (SVG) are stored, but not standard error or
times of execution. The metadata of a cell with a figure has its alt text. A test runs the notebooks too and compares
their text with what is stored: it must not vary.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
NOTEBOOKS = sorted(HERE.glob("*.ipynb"))
DIGITS = re.compile(r"(\d\.\d\d)\d+")
MADE = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
CELL_TIMEOUT_S = 600
STYLE = re.compile(r"\x1b\[[0-9;]*m")  # of a terminal


def run(path: Path) -> Any:
    """The notebook at ``path`` with new outputs; the file is unchanged. Raises CellExecutionError if a cell fails."""
    notebook = nbformat.read(path, as_version=4)
    # The shell may have Spark settings of another directory; a notebook must work without them.
    environment = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "SPARK_CONF_DIR")}
    client = NotebookClient(notebook, timeout=CELL_TIMEOUT_S, kernel_name="python3", record_timing=False)
    client.execute(cwd=str(HERE), env=environment)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            for output in cell.outputs:
                _shrink(output.get("data", {}))
    notebook.metadata = {name: notebook.metadata[name] for name in ("kernelspec",)}
    return notebook


def text_of(notebook: Any) -> list[str]:
    """The text output of each code cell, in order; for a picture, its text form.

    Styles are removed, because IPython may miss the one that ends after the last line of a command.
    """
    return [
        STYLE.sub("", "".join(output.get("text") or output.data["text/plain"] for output in cell.outputs))
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def _shrink(data: Any) -> None:
    """Rounds the numbers of a figure to hundredths of a pixel, and removes when it was made."""
    if "image/svg+xml" in data:
        figure = DIGITS.sub(r"\1", MADE.sub("", data["image/svg+xml"]))
        data["image/svg+xml"] = "\n".join(line.strip() for line in figure.splitlines())


if __name__ == "__main__":
    for path in [Path(name) for name in sys.argv[1:]] or NOTEBOOKS:
        nbformat.write(run(path), path)
