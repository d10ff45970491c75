"""``commitlog configs``: ``kafka-configs`` for topics on a log directory, with its flags and output."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ... import storage
from ..arguments import settings_given
from ..flags import AsJson, DryRun, LogDir, OneTopic, check_goes_with, complete_topic, only
from ..output import Column, fail, is_watched, print_json, print_table
from .configs_for_all import KINDS, alter_for_all, describe_for_all, describe_own

COLUMNS = (Column("TOPIC"), Column("CONFIG"), Column("VALUE"), Column("DEFAULT"), Column("MEANING", is_text=True))
_PAIR = re.compile(r"([^=,\s]+)=(\[[^\]]*\]|[^,]*)(?:,|$)")

Describe = Annotated[bool, typer.Option("--describe", help="Show the configs set on topics.")]
Alter = Annotated[bool, typer.Option("--alter", help="Change configs of a topic.")]
All = Annotated[bool, typer.Option("--all", help="With --describe: also show defaults.")]
EntityType = Annotated[
    str,
    typer.Option(
        help="Use topics, or brokers with --entity-default for the configs of all topics of the directory. With "
        "--describe also brokers or groups, for those of one gateway or group."
    ),
]
EntityDefault = Annotated[
    bool,
    typer.Option(
        "--entity-default", help="With --entity-type brokers, whose keys are those of a broker: log.retention.ms."
    ),
]
BrokerDefaults = Annotated[
    bool, typer.Option("--broker-defaults", help="Short for --entity-type brokers --entity-default.")
]
EntityName = Annotated[
    str | None,
    typer.Option(autocompletion=complete_topic, help="The topic, as --topic; or the node.id of a gateway, or a group."),
]
AddConfig = Annotated[
    str | None,
    typer.Option(metavar="K=V,...", help="Set these configs. Put lists in brackets: cleanup.policy=[compact,delete]."),
]
AddConfigFile = Annotated[Path | None, typer.Option(help="Set the configs in a properties file, one per line.")]
DeleteConfig = Annotated[str | None, typer.Option(metavar="K,...", help="Reset these configs to their defaults.")]


def configs(  # the flags are those of kafka-configs
    *,
    log_dir: LogDir,
    describe: Describe = False,
    alter: Alter = False,
    show_all: All = False,
    entity_type: EntityType = "topics",
    entity_name: EntityName = None,
    entity_default: EntityDefault = False,
    broker_defaults: BrokerDefaults = False,
    topic: OneTopic = None,
    add_config: AddConfig = None,
    add_config_file: AddConfigFile = None,
    delete_config: DeleteConfig = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Show and change the configs of topics, which are stored in topics.json at the root of the log directory.

    With --entity-type brokers --entity-default: the configs for all topics that have none of their own. Those that one
    gateway or group of consumers has are shown by --entity-type brokers or groups; clients change them.

    A broker stores the configs of topics in its own metadata: it does not see those set here, and its own are not shown
    here. A program that has a log open keeps the settings with which it opened the log.
    """
    action = only(describe=describe, alter=alter)
    check_goes_with(
        action, ("--alter",), add_config=add_config, add_config_file=add_config_file, delete_config=delete_config
    )
    name = topic if entity_name is None else entity_name
    of_all = _concerns_all(entity_type, name, is_default=entity_default, is_broker=broker_defaults)
    kind = None if of_all else KINDS.get(entity_type)
    if kind is not None:
        _check_shown(entity_type, action, topic)
    with storage.LogManager.open(log_dir) as manager:
        if of_all and action == "--describe":
            describe_for_all(manager.broker_settings(), as_json=as_json)
            return
        if kind is not None:
            describe_own(manager.topics_file(), kind, name, as_json=as_json)
            return
        if action == "--describe":
            found = list(manager.topics().values()) if name is None else [manager.topic(name)]
            _describe(found, show_all=show_all, as_json=as_json)
            return
        changes = _changes(add_config, add_config_file, delete_config)
        if of_all:
            alter_for_all(manager, changes, is_dry=dry_run, as_json=as_json)
            return
        if name is None:
            raise typer.BadParameter("--alter needs --topic")
        _alter(manager, name, changes, is_dry=dry_run, as_json=as_json)


def _concerns_all(entity_type: str, name: str | None, *, is_default: bool, is_broker: bool) -> bool:
    """Returns whether the command is about all topics of the directory; exits for entities without configs."""
    if entity_type != "topics" and entity_type not in KINDS:
        raise typer.BadParameter(
            f"--entity-type {entity_type!r} has no configs here; omit it for those of topics, or see --entity-default"
        )
    if is_default and entity_type != "brokers" and not is_broker:
        raise typer.BadParameter("--entity-default needs --entity-type brokers")
    of_all = is_broker or is_default
    if of_all and name is not None:
        raise typer.BadParameter("configs of all topics have no names here: leave out --entity-name and --topic")
    return of_all


def _check_shown(entity_type: str, action: str, topic: str | None) -> None:
    """Exits unless the configs of single nodes or groups are to be shown."""
    if action != "--describe":
        default = "; --entity-default is for those of all topics" if entity_type == "brokers" else ""
        raise typer.BadParameter(
            f"clients change the configs of single {entity_type} while a gateway runs, as with kafka-configs{default}"
        )
    if topic is not None:
        raise typer.BadParameter(f"--topic is no name of {entity_type}: use --entity-name")


# Showing


def _describe(found: Sequence[storage.TopicDescription], *, show_all: bool, as_json: bool) -> None:
    rows = {topic.name: list(_shown(topic, show_all=show_all)) for topic in found}
    if as_json:
        print_json({"topic": topic, **row} for topic, of_topic in rows.items() for row in of_topic)
    elif is_watched():
        names = ("config", "value", "default", "meaning")
        print_table(COLUMNS, [(topic, *(row[name] for name in names)) for topic in rows for row in rows[topic]])
    else:
        for topic, of_topic in rows.items():
            typer.echo(f"{'All' if show_all else 'Dynamic'} configs for topic {topic} are:")
            for row in of_topic:
                typer.echo(f"  {row['config']}={row['value']} sensitive=false synonyms={{{', '.join(_synonyms(row))}}}")


def _shown(topic: storage.TopicDescription, *, show_all: bool) -> Iterator[dict[str, Any]]:
    """Yields one row per config, sorted by name."""
    for found in storage.described_settings(topic):
        if show_all or found.own is not None:
            yield {
                "config": found.key.name,
                "value": found.value,
                "default": found.default,
                "is_default": found.is_default,
                "own": found.own,
                "for_all": found.for_all,
                "broker_key": found.key.synonyms[0].name if len(found.key.synonyms) == 1 else None,
                "meaning": found.key.doc,
            }


def _synonyms(row: Mapping[str, Any]) -> Iterator[str]:
    """Yields the levels that set a config, as Kafka prints them: topic, all brokers, default."""
    if row["own"] is not None:
        yield f"DYNAMIC_TOPIC_CONFIG:{row['config']}={row['value']}"
    for name, value in row["for_all"].items():
        yield f"DYNAMIC_DEFAULT_BROKER_CONFIG:{name}={value}"
    if row["broker_key"] is not None:
        yield f"DEFAULT_CONFIG:{row['broker_key']}={row['default']}"


# Changing


def _alter(
    manager: storage.LogManager, name: str, changes: Mapping[str, str | None], *, is_dry: bool, as_json: bool
) -> None:
    with settings_given():
        altered = storage.alter_configs(manager, name, changes, dry_run=is_dry)
    for key in storage.LogConfig.without_effect(changes):
        typer.echo(f"{key}: has no effect here", err=True)
    if as_json:
        print_json([{"topic": name, "configs": dict(altered.configs), "altered": not is_dry}])
    elif is_dry:
        shown = ", ".join(f"{key}={value}" for key, value in sorted(altered.configs.items())) or "none"
        typer.echo(f"would leave topic {name} with these configs: {shown}")
    else:
        typer.echo(f"Completed updating config for topic {name}.")


def _changes(added: str | None, added_from: Path | None, reset: str | None) -> dict[str, str | None]:
    changes: dict[str, str | None] = {} if added_from is None else _properties(added_from)
    changes |= {} if added is None else _pairs(added)
    changes |= dict.fromkeys(key.strip() for key in (reset or "").split(",") if key.strip())
    if not changes:
        raise typer.BadParameter("--alter needs --add-config, --add-config-file or --delete-config")
    return changes


def _pairs(text: str) -> dict[str, str | None]:
    """Returns the configs in ``a=1,b=[x,y]`` by name, without brackets."""
    position, found = 0, dict[str, str | None]()
    while position < len(text):
        pair = _PAIR.match(text, position)
        if pair is None:
            raise typer.BadParameter(
                f"--add-config {text[position:]!r} is not of the form retention.ms=1000,cleanup.policy=[compact,delete]"
            )
        found[pair[1]] = pair[2].removeprefix("[").removesuffix("]")
        position = pair.end()
    return found


def _properties(path: Path) -> dict[str, str | None]:
    try:
        lines = [line.strip() for line in path.read_text().splitlines()]
    except FileNotFoundError:
        fail(f"{path}: no such file")
    pairs = [line.partition("=") for line in lines if line and line[0] not in "#!"]
    wrong = [key for key, equals, _ in pairs if not equals]
    if wrong:
        fail(f"{path}: {wrong[0]!r} is not of the form retention.ms=1000")
    return {key.strip(): value.strip() for key, _, value in pairs}
