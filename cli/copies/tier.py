"""``commitlog tier``: copies to a tier, gives a topic to the tier of a Kafka, and brings topics back from one."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

import typer

from ... import storage
from ..arguments import parse_pairs, settings_given
from ..flags import AsJson, DryRun, TierKeys, check_goes_with
from ..maintenance.run import Asked, Config, Every, Topics, Wait, carry_out
from ..output import print_json
from .backup import KeyFile
from .from_tier import Lost, to_cluster, to_directory

_STOP = "next: stop the broker, run commitlog tier publish --broker-log-dir DIR with its log.dirs, and start it"


class Action(StrEnum):
    """The action of the command."""

    COPY = "copy"
    PUBLISH = "publish"
    RESTORE = "restore"


What = Annotated[
    Action,
    typer.Argument(
        help="copy: closed segments of topics with remote.storage.enable to the tier; publish: topics to a Kafka whose "
        "tier it is, which then serves them without having written them; restore: topics from a tier whose log is "
        "lost, to a log directory, or to a new Kafka whose tier it is."
    ),
]
LogDir = Annotated[
    str | None,
    typer.Option(envvar="COMMITLOG_LOG_DIR", help="The log directory, as in Kafka's log.dirs.", show_envvar=True),
]
Tier = Annotated[
    str | None,
    typer.Option("--tier", metavar="URL", help="The tier: a directory (rsm.config.dir), or s3://bucket/folder."),
]
Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT",
        help="publish, restore: the running Kafka that learns of the segments.",
    ),
]
Client = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE", help="publish, restore: a client's setting, such as security.protocol=SSL. Repeatable."
    ),
]
BrokerLogDir = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="publish: the log directory of the broker, which is stopped: prepare it."),
]

Backup = Annotated[
    str | None,
    typer.Option(
        metavar="PLACE",
        help="restore: what is known beside the tier: a backup of the log directory that was copied there (commitlog "
        "backup), or a directory with what is left of it. Its settings and groups' offsets are restored.",
    ),
]
At = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="restore: the backup's last moment up to this time, or with this name."),
]


def tier(
    action: What,
    *,
    log_dir: LogDir = None,
    tier: Tier = None,
    tier_key: TierKeys = None,
    backup: Backup = None,
    at: At = None,
    key_file: KeyFile = None,
    topics: Topics = None,
    config: Config = None,
    bootstrap_server: Bootstrap = None,
    client_config: Client = None,
    broker_log_dir: BrokerLogDir = None,
    dry_run: DryRun = False,
    wait: Wait = False,
    every: Every = None,
    as_json: AsJson = False,
) -> None:
    """Copy closed segments to a tier, let a Kafka serve a topic from its tier, or bring topics back from one.

    copy writes what Kafka's tiered storage writes, and reads each object back before it counts as copied; then
    commitlog retain may delete local segments by local.retention.ms and local.retention.bytes. publish has two steps:
    with --bootstrap-server, while the broker runs, and with --broker-log-dir, once it is stopped. restore copies topics
    to --log-dir, or publishes them with --bootstrap-server; publish --broker-log-dir is then the second step, too.
    Groups stand where they were, but never ahead of what the tier has. Run again after it was killed, each goes on.
    """
    check_goes_with(action, ("restore",), backup=backup, at=at, key_file=key_file, tier_key=tier_key)
    check_goes_with(action, ("copy",), wait=wait, every=every)
    check_goes_with(action, ("publish",), broker_log_dir=broker_log_dir)
    check_goes_with(action, ("publish", "restore"), bootstrap_server=bootstrap_server, client_config=client_config)
    if action is Action.RESTORE and bootstrap_server is None and (config or client_config):
        raise typer.BadParameter("restore takes --config and --client-config with --bootstrap-server only")
    if action is Action.COPY:
        asked = Asked(_needed("--log-dir", log_dir), topics, config, as_json, dry_run, wait, every=every)
        carry_out("tier", asked, partial(storage.tier_partitions, url=_needed("--tier", tier)))
        return
    cluster = (bootstrap_server or "", parse_pairs("--client-config", client_config or ()))
    configs = parse_pairs("--config", config or ())
    if action is Action.RESTORE:
        lost = Lost(_needed("--tier", tier), tier_key or (), topics, backup, at, key_file)
        if bootstrap_server is not None:
            to_cluster(lost, cluster, configs, dry_run=dry_run, as_json=as_json)
            typer.echo(_STOP, err=as_json)
        else:
            directory = _needed("--log-dir or --bootstrap-server", log_dir)
            to_directory(lost, directory, dry_run=dry_run, as_json=as_json)
    elif bootstrap_server is not None:
        place = _needed("--log-dir", log_dir), _needed("--tier", tier), _names(topics)
        _publish(*place, cluster, configs, dry_run=dry_run, as_json=as_json)
    else:
        directory = _needed("--bootstrap-server or --broker-log-dir", broker_log_dir)
        _prepare(directory, _names(topics), dry_run=dry_run, as_json=as_json)


def _needed(flag: str, value: str | None) -> str:
    if value is None:
        raise typer.BadParameter(f"give {flag}")
    return value


def _names(topics: Sequence[str] | None) -> list[str]:
    return storage.parse_names("--topics", _needed("--topic", ",".join(topics) if topics else None).split(","))


def _publish(
    log_dir: str,
    url: str,
    topics: Sequence[str],
    cluster: tuple[str, dict[str, str]],
    configs: dict[str, str],
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    from ...mirror.brokers.cluster import Cluster  # noqa: PLC0415  with the extra kafka
    from ...mirror.tiers.publishing import publish_topic  # noqa: PLC0415

    store = storage.open_objects(url)
    with settings_given():
        known = Cluster.parse(*cluster)
    with storage.LogManager.open(log_dir) as manager:
        for topic in topics:
            tell = partial(_tell, dry_run=dry_run, as_json=as_json)
            for each in publish_topic(manager, topic, store, known, configs, dry_run=dry_run, tell=tell):
                if dry_run:
                    continue
                if as_json:
                    print_json([_row(each)])
                    continue
                typer.echo(
                    f"{each.partition}: offsets {each.log_start_offset} to {each.log_end_offset} in "
                    f"{storage.counted(each.segments, 'segment')}, {each.written:,} of them new to the brokers"
                )
    typer.echo(_STOP, err=as_json)


def _row(each: Any) -> dict[str, Any]:
    """Returns a tuple with the field ``partition`` as a JSON object."""
    return {**each._asdict(), **each.partition._asdict()}


def _tell(step: str, *, dry_run: bool, as_json: bool) -> None:
    typer.echo(f"would {step}" if dry_run else step, err=as_json)


def _prepare(directory: str, topics: Sequence[str], *, dry_run: bool, as_json: bool) -> None:
    with storage.LogManager.open(directory) as manager:
        for each in storage.prepare_directory(manager, topics, dry_run=dry_run):
            if as_json:
                print_json([_row(each)])
                continue
            did = "was ready" if each.was_ready else "would be prepared" if dry_run else "prepared"
            typer.echo(
                f"{each.partition}: {did}: {storage.counted(each.segments, 'segment')} in the tier from "
                f"{each.log_start_offset} on; the broker appends at {each.tier_end_offset}"
            )
    typer.echo("next: start the broker", err=as_json)
