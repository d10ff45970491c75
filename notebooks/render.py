"""Run the notebooks and keep what they show: ``python notebooks/render.py`` (make notebooks).

A notebook runs in this folder, in a kernel of its own. Kept are text, tables and pictures, made small; not what went to
standard error, nor when it ran. A test runs them too and holds the text to what is kept: it must be the same each time.
"""

from __future__ import annotations

import base64
import io
import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from PIL import Image

HERE = Path(__file__).resolve().parent
NOTEBOOKS = sorted(HERE.glob("*.ipynb"))
COLOURS = 64  # of a picture: lines and text are as they were, and the file is a third
CELL_TIMEOUT_S = 600
STYLE = re.compile(r"\x1b\[[0-9;]*m")  # of a terminal


def run(path: Path) -> Any:
    """The notebook at ``path`` with new outputs; CellExecutionError where a cell fails. The file stays as it is."""
    notebook = nbformat.read(path, as_version=4)
    # A shell may have Spark's settings of another directory; a notebook is to do without.
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
    """What each code cell shows as text, in their order; pictures as the name of what they are.

    Without styles: IPython's reader of a command may miss the one that ends behind its last line.
    """
    return [
        STYLE.sub("", "".join(output.get("text") or output.data["text/plain"] for output in cell.outputs))
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def _shrink(data: Any) -> None:
    """Keep a picture with few colours."""
    if "image/png" not in data:
        return
    picture = Image.open(io.BytesIO(base64.b64decode(data["image/png"]))).convert("RGB")
    small = io.BytesIO()
    picture.quantize(COLOURS).save(small, "PNG", optimize=True)
    data["image/png"] = base64.b64encode(small.getvalue()).decode()


if __name__ == "__main__":
    for path in [Path(name) for name in sys.argv[1:]] or NOTEBOOKS:
        nbformat.write(run(path), path)
