"""The command line of the mirroring job."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ...storage import InvalidConfigError, Runner, parse_pairs
from ..job.command_line import Parser, add_log_dir, pause_s
from ..job.settings_files import properties
from ..locations import local_directory, log_location
from .between_clusters import add_between_clusters
from .mirrored import Mirrored

if TYPE_CHECKING:
    from ...mirror.brokers.cluster import Cluster


def parser(description: str | None, prog: str | None = None) -> argparse.ArgumentParser:
    """Returns a parser with the commands ``from-kafka``, ``to-kafka`` and ``between-clusters``."""
    whole = Parser(prog=prog, description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = whole.add_subparsers(dest="direction", required=True, metavar="DIRECTION")
    from_kafka = commands.add_parser("from-kafka", help="copy new records of topics in Kafka to a log directory")
    to_kafka = commands.add_parser("to-kafka", help="copy new records of topics in a log directory to Kafka")
    for command in (from_kafka, to_kafka):
        _add_common(command)
    to_kafka.add_argument(
        "--target", metavar="TOPIC", help="the topic's name in Kafka, for a single topic (default: its name here)"
    )
    to_kafka.add_argument(
        "--compression", default="none", metavar="CODEC", help="none, gzip, snappy, lz4 or zstd (default: none)"
    )
    add_between_clusters(commands)
    return whole


def _add_common(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--bootstrap-servers", required=True, metavar="HOST:PORT", help="brokers, separated by commas")
    add_log_dir(command)
    add(
        *("--topics", "--topic", "-t"),
        action="append",
        required=True,
        metavar="NAMES",
        help="topics, separated by commas; may be repeated",
    )
    add("--config", action="append", default=[], metavar="KEY=VALUE", help="a setting of new topics; may be repeated")
    add(
        "--client",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the Kafka client, such as security.protocol=SSL; may be repeated",
    )
    add(
        "--client-config",
        metavar="FILE",
        help="a file of settings of the Kafka client, one per line, as for Kafka's --command-config",
    )
    add("--follow", type=pause_s, metavar="SECONDS", help="repeat until stopped, with a pause of this many seconds")
    add(
        "--allow-data-loss",
        action="store_true",
        help="skip records that were deleted before they were mirrored",
    )


def _follow(options: argparse.Namespace, topics: Sequence[str], runner: Runner) -> Iterator[Mirrored]:
    from .from_kafka import Following, follow  # noqa: PLC0415  needs the extra

    following = Following(_cluster(options), local_directory(options.log_dir), options.allow_data_loss)
    return follow(following, topics, runner, configs=parse_pairs("--config", options.config))


def _send(options: argparse.Namespace, topics: Sequence[str], runner: Runner) -> Iterator[Mirrored]:
    from ..write.targets import ProducerSettings  # noqa: PLC0415
    from .to_kafka import Sending, send  # noqa: PLC0415  needs the extra

    if options.target is not None and len(topics) != 1:
        raise InvalidConfigError(
            f"--target {options.target} is for a single topic, but --topics names {', '.join(topics)}: run the job "
            "once for each"
        )
    compression = ProducerSettings.parse({"compression.type": options.compression}).compression
    cluster, directory = _cluster(options), log_location(options.log_dir)
    for topic in topics:
        sending = Sending(cluster, directory, topic, options.target or topic, compression, options.allow_data_loss)
        yield from send(sending, runner, configs=parse_pairs("--config", options.config))


Round = Callable[[argparse.Namespace, Sequence[str], Runner], Iterator[Mirrored]]
ROUNDS: dict[str, Round] = {"from-kafka": _follow, "to-kafka": _send}  # by command


def _cluster(options: argparse.Namespace) -> Cluster:
    from ...mirror.brokers.cluster import Cluster  # noqa: PLC0415  needs the extra

    settings = properties("--client-config", options.client_config) | parse_pairs("--client", options.client)
    return Cluster.parse(options.bootstrap_servers, settings)
