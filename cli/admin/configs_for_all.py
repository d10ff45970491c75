"""``commitlog configs --entity-type brokers`` and ``groups``: configs for all topics, of one node, and of one group.

Those of nodes and groups are only shown: a gateway checks them, so clients change them while one runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import typer

from ... import storage
from ..arguments import settings_given
from ..output import print_json


class Kind(NamedTuple):
    """A kind of entity with configs of its own: Kafka's name for it, and its name in ``topics.json``."""

    noun: str
    level: str
    owner: str


KINDS = {  # by --entity-type
    "brokers": Kind("broker", "DYNAMIC_BROKER_CONFIG", "nodes"),
    "groups": Kind("group", "DYNAMIC_GROUP_CONFIG", "groups"),
}


def describe_own(file: storage.TopicsFile, kind: Kind, name: str | None, *, as_json: bool) -> None:
    """Prints the own configs of one node or group; None: of each that has some, then those of all nodes."""
    owned = file.owned.get(storage.Owner(kind.owner), {})
    of_nodes = kind is KINDS["brokers"]
    broker = file.broker if of_nodes else {}
    for each in sorted(owned) if name is None else [name]:
        if as_json:
            print_json({kind.noun: each, "config": key, "value": value} for key, value in _sorted(owned.get(each, {})))
            continue
        typer.echo(f"Dynamic configs for {kind.noun} {each} are:")
        for key, value in _sorted(owned.get(each, {})):
            typer.echo(f"  {key}={value} sensitive=false synonyms={{{_synonyms(kind, broker, key, value)}}}")
    if name is None and of_nodes:
        describe_for_all(broker, as_json=as_json)


def _sorted(configs: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted(configs.items())


def _synonyms(kind: Kind, broker: Mapping[str, str], key: str, value: str) -> str:
    """Returns the levels that set a config, as Kafka prints them: the node or group, all nodes."""
    own = f"{kind.level}:{key}={value}"
    return f"{own}, DYNAMIC_DEFAULT_BROKER_CONFIG:{key}={broker[key]}" if key in broker else own


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
