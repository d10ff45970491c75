"""``commitlog topics``: which topics a log directory holds."""

from __future__ import annotations

from typing import Annotated

import typer

from pyspark_commitlog import storage


def topics(
    *,
    log_dir: Annotated[str, typer.Option(help="The log directory: what log.dirs names.")],
    list_topics: Annotated[bool, typer.Option("--list", help="The names, one a line.")] = False,
    describe: Annotated[bool, typer.Option("--describe", help="Partitions and configs of each topic.")] = False,
    topic: Annotated[str | None, typer.Option(help="Only this one.")] = None,
) -> None:
    """Show the topics of a log directory; takes no lock, so a running broker's directory may be looked at."""
    if list_topics == describe:
        raise typer.BadParameter("exactly one of --list and --describe is needed")
    with storage.LogManager.open(log_dir) as manager:
        found = [manager.topic(topic)] if topic is not None else list(manager.topics().values())
        for one in found:
            if list_topics:
                typer.echo(one.name)
                continue
            configs = ",".join(f"{key}={value}" for key, value in sorted(one.configs.items()))
            typer.echo(
                f"Topic: {one.name}\tTopicId: {one.topic_id or '-'}\tPartitionCount: {len(one.partitions)}"
                f"\tConfigs: {configs}"
            )
            for partition in one.partitions:
                typer.echo(f"\tTopic: {one.name}\tPartition: {partition}")
