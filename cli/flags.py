"""Flags that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

LogDir = Annotated[str, typer.Option(help="The log directory: what log.dirs names.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
