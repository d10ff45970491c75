"""Flags that several commands have, and what shells complete them with."""

from __future__ import annotations

from typing import Annotated

import typer

from pyspark_commitlog import storage


def flag(name: str) -> str:
    """``to_offset`` is ``--to-offset``."""
    return f"--{name.replace('_', '-')}"


def only(**actions: bool) -> str:
    """The one flag that was given, of those that say what is to be done."""
    asked = [name for name, is_asked in actions.items() if is_asked]
    if len(asked) != 1:
        raise typer.BadParameter(f"exactly one of {', '.join(map(flag, actions))} is needed")
    return flag(asked[0])


def complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of topics, once --log-dir was typed; a shell shows no errors, so there are none."""
    try:
        with storage.LogManager.open(ctx.params.get("log_dir") or "") as manager:
            return [name for name in manager.topics() if name.startswith(incomplete)]
    except (storage.LogStoreError, OSError):
        return []


LogDir = Annotated[str, typer.Option(help="The log directory: what log.dirs names.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing, say what would be changed.")]
TopicNames = Annotated[
    str | None,
    typer.Option(autocompletion=complete_topic, help="A topic, or a regular expression that whole names match."),
]
OneTopic = Annotated[str | None, typer.Option(autocompletion=complete_topic, help="A topic.")]
