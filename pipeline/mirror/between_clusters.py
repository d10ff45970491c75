"""Between clusters: the command line of :class:`Mirror`, with the options of Kafka's MirrorMaker."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from ...storage import InvalidConfigError, parse_pairs
from ..job.command_line import pause_s
from ..job.settings_files import properties

if TYPE_CHECKING:
    from ...mirror.run import Mirror
    from ...mirror.topics import TopicChoice

BETWEEN_CLUSTERS = "between-clusters"
_STOPPING = (signal.SIGINT, signal.SIGTERM)


def add_between_clusters(commands: Any) -> None:
    """Adds the command ``between-clusters`` to the commands of a parser."""
    add = commands.add_parser(
        BETWEEN_CLUSTERS, help="copy topics of one or several clusters into one cluster or log directory"
    ).add_argument
    add(
        "--consumer.config",
        dest="consumer_configs",
        action="append",
        required=True,
        metavar="FILE",
        help="a source: a file with group.id, bootstrap.servers or what stands in its place for older clusters and "
        "directories, and other settings, one per line; may be repeated",
    )
    add(
        "--producer.config",
        dest="producer_config",
        required=True,
        metavar="FILE",
        help="the target: a file with bootstrap.servers, or with log.dir for a log directory",
    )
    add("--whitelist", metavar="REGEX", help="the topics to copy, by whole names; a comma stands for |")
    add("--blacklist", metavar="REGEX", help="copy all topics but these")
    add("--num.streams", dest="streams", type=int, default=1, metavar="N", help="threads per source (default: 1)")
    add(
        "--queue.size",
        dest="queue_size",
        type=int,
        metavar="N",
        help="records of each source that may wait in memory (default: two fetches of each thread)",
    )
    add(
        "--partitions",
        default="kept",
        metavar="HOW",
        help="kept: a record stays in the partition that it has; by-key: by the hash of its key (default: kept)",
    )
    add("--partition-count", type=int, metavar="N", help="partitions of new topics, by-key (default: the source's)")
    add("--config", action="append", default=[], metavar="KEY=VALUE", help="a setting of new topics; may be repeated")
    add(
        "--follow",
        type=pause_s,
        metavar="SECONDS",
        help="go on until stopped, and look for new topics every N seconds",
    )


def run_between_clusters(options: argparse.Namespace) -> None:
    """Mirrors by the options, and prints the results. Raises the errors of :meth:`Mirror.run`."""
    mirror = _mirror(options)
    with _stopped_by_signals(mirror):
        try:
            mirror.run()
        finally:
            for (group, partition), offset in sorted(mirror.reached().items()):
                print(f"{group} {partition}: up to offset {offset}", flush=True)


def _mirror(options: argparse.Namespace) -> Mirror:
    from ...mirror.run import Mirror  # noqa: PLC0415  needs the extra
    from ...mirror.settings import SourceSettings, TargetSettings  # noqa: PLC0415

    sources = [SourceSettings.parse(properties("--consumer.config", file)) for file in options.consumer_configs]
    target = TargetSettings.parse(properties("--producer.config", options.producer_config))
    return Mirror(
        sources,
        target,
        _choice(options),
        streams=options.streams,
        queue_size=options.queue_size,
        refresh_s=options.follow,
        report=_report,
    )


def _choice(options: argparse.Namespace) -> TopicChoice:
    from ...classic.topic_filters import Blacklist, Whitelist  # noqa: PLC0415
    from ...mirror.topics import TopicChoice  # noqa: PLC0415

    if (options.whitelist is None) == (options.blacklist is None):
        raise InvalidConfigError("exactly one of --whitelist and --blacklist says which topics are mirrored")
    chosen = Blacklist(options.blacklist) if options.whitelist is None else Whitelist(options.whitelist)
    return TopicChoice(chosen, options.partitions, parse_pairs("--config", options.config), options.partition_count)


def _report(sentence: str) -> None:
    print(f"mirror: {sentence}", file=sys.stderr, flush=True)


@contextmanager
def _stopped_by_signals(mirror: Mirror) -> Iterator[None]:
    """Lets SIGINT and SIGTERM stop the mirror in the block, between two transactions."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        mirror.stop()

    before = {each: signal.signal(each, stop) for each in _STOPPING}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
