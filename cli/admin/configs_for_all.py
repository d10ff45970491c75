"""``commitlog configs --entity-type brokers --entity-default``: the configs for all topics of a directory."""

from __future__ import annotations

from collections.abc import Mapping

import typer

from ... import storage
from ..arguments import settings_given
from ..output import print_json


def describe_for_all(settings: Mapping[str, str], *, as_json: bool) -> None:
    """Prints the configs as Kafka prints the default configs of brokers."""
    if as_json:
        print_json({"config": key, "value": value} for key, value in sorted(settings.items()))
        return
    typer.echo("Default configs for brokers in the cluster are:")
    for key, value in sorted(settings.items()):
        typer.echo(f"  {key}={value} sensitive=false synonyms={{DYNAMIC_DEFAULT_BROKER_CONFIG:{key}={value}}}")


def alter_for_all(
    manager: storage.LogManager, changes: Mapping[str, str | None], *, is_dry: bool, as_json: bool
) -> None:
    """Changes the configs, or prints what they would be."""
    with settings_given():
        altered = storage.alter_broker_settings(manager, changes, dry_run=is_dry)
    for key in storage.LogConfig.without_effect(changes):
        typer.echo(f"{key}: has no effect here", err=True)
    if as_json:
        print_json([{"configs": altered, "altered": not is_dry}])
    elif is_dry:
        shown = ", ".join(f"{key}={value}" for key, value in sorted(altered.items())) or "none"
        typer.echo(f"would leave these configs for all topics: {shown}")
    else:
        typer.echo("Completed updating default config for brokers in the cluster.")
