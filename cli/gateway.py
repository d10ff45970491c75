"""``commitlog gateway``: serves a log directory to Kafka's clients."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..storage import Address, local_path, location, log_to_stderr, needs_extra, parse_address
from .arguments import parse_pairs, read_settings, settings_given
from .flags import LogDir, TierKeys
from .output import fail
from .passwords import asked_password
from .signals import Ended, until_signal

if TYPE_CHECKING:
    from ..browse.server import BrowseServer
    from ..gateway.check import CheckConfig
    from ..gateway.config import GatewayConfig
    from ..gateway.server import Gateway

logger = logging.getLogger(__name__)

Conf = Annotated[
    Path | None,
    typer.Option(
        "--conf", help="A file of settings: commitlog conf gateway.toml prints one. Default: Kafka's defaults."
    ),
]
Listen = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help="Where to listen, such as 127.0.0.1:9092, the default, or SASL_SSL://0.0.0.0:9093."
    ),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="Serve metrics to Prometheus on this port of 127.0.0.1; 0: a free one."),
]
BrowsePort = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="Serve the page of commitlog browse on this port of 127.0.0.1; 0: a free one."),
]
Check = Annotated[
    bool,
    typer.Option("--check", help="Connect to a running gateway as a client does, and print what works; serve nothing."),
]
User = Annotated[
    str | None,
    typer.Option(
        "--user",
        metavar="USER",
        help="With --check: log in as this user; asks for the password, or reads it from stdin.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Serve nothing; print what would be served, and where.")]


Tier = Annotated[
    str | None,
    typer.Option(
        "--tier", metavar="URL", help="Serve offsets below the local segments from this tier, a directory or a URL."
    ),
]


class ProtocolVersion(StrEnum):
    """The protocols that a gateway can serve."""

    KAFKA = "kafka"
    KAFKA_0_7 = "0.7"


class LogLevel(StrEnum):
    """The log levels of a gateway."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    DEBUG = "debug"


Level = Annotated[LogLevel, typer.Option("--log-level", help="Log to stderr what is at least so important.")]
Protocol = Annotated[
    ProtocolVersion,
    typer.Option(help="kafka: today's clients over a log of today; 0.7: clients of Kafka 0.7 over a log of 0.7."),
]
Config = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting by Kafka's name; may be given several times.")
]


def gateway(
    *,
    log_dir: LogDir,
    listen: Listen = None,
    config: Config = None,
    conf: Conf = None,
    tier: Tier = None,
    tier_key: TierKeys = None,
    metrics_port: MetricsPort = None,
    browse_port: BrowsePort = None,
    check: Check = False,
    user: User = None,
    dry_run: DryRun = False,
    protocol: Protocol = ProtocolVersion.KAFKA,
    log_level: Level = LogLevel.INFO,
) -> None:
    """Serve a log directory, or a log on an object store, to Kafka's clients, while Spark and other commands use it.

    Prints the address once clients can connect, and acknowledges records once they are synced. On SIGTERM or Ctrl-C,
    answers the requests that it has read, closes the logs and ends. By default only this machine can connect. A
    listener for other machines needs TLS and logins: use SASL_SSL, and commitlog users.
    """
    if protocol is ProtocolVersion.KAFKA_0_7:
        if check or any(each is not None for each in (user, tier, metrics_port, browse_port)):
            raise typer.BadParameter(
                "--protocol 0.7 goes without --check, --user, --tier, --metrics-port and --browse-port"
            )
        _serve_0_7(local_path(log_dir), _given(conf, config), listen, log_level, dry_run=dry_run)
        return
    if user is not None and not check:
        raise typer.BadParameter("--user goes with --check: who may log in is in the settings, and commitlog users")
    from ..gateway.process import prepare_process  # noqa: PLC0415  needs the extra
    from ..gateway.server import Gateway  # noqa: PLC0415  needs the extra

    if check:
        _check(check_settings(conf, listen, config), user)
        return
    log_dir = location(log_dir)
    found = settings(conf, listen, config, _tier_settings(tier, tier_key))
    with settings_given():
        server = Gateway(log_dir, found, create=True)
    if dry_run:
        typer.echo(f"would serve {log_dir} on {', '.join(str(each.address) for each in server.config.all_listeners)}")
        return
    ended = _until_signal(log_level)
    with server, ExitStack() as beside:
        if browse_port is not None:
            typer.echo(f"page at {beside.enter_context(_page(log_dir, browse_port)).url}", err=True)
        if metrics_port is not None:
            typer.echo(f"metrics at {_serve_metrics(server, metrics_port)}", err=True)
        prepare_process()
        typer.echo(f"listening on {', '.join(map(str, server.addresses.values()))}")
        ended.wait_for_signal()
    logger.info("%s: answered what was read, closed the logs; the gateway ends", ended.name)


def _tier_settings(url: str | None, keys: list[str] | None) -> dict[str, Any]:
    """Returns the settings that ``--tier`` and ``--tier-key`` stand for."""
    given = {"commitlog.tier.url": url, "commitlog.tier.keys": ",".join(keys or ())}
    return {name: value for name, value in given.items() if value}


def _until_signal(level: LogLevel) -> Ended:
    """Logs to stderr from here on; returns an event that SIGTERM or Ctrl-C sets."""
    log_to_stderr(logging.getLevelNamesMapping()[level.name])
    return until_signal()


def _serve_0_7(log_dir: str, given: dict[str, Any], listen: str | None, log_level: LogLevel, *, dry_run: bool) -> None:
    """Serves a log of 0.7 to its clients."""
    from ..classic.gateway_0_7.config import PositionGatewayConfig  # noqa: PLC0415
    from ..classic.gateway_0_7.server import PositionGateway  # noqa: PLC0415
    from ..classic.log_0_7.topics import PositionTopics  # noqa: PLC0415

    if listen is not None:
        given["hostname"], given["port"] = parse_address("--listen", listen)
    with settings_given():
        config = PositionGatewayConfig.from_mapping(given)
    server = PositionGateway(log_dir, config)
    if dry_run:
        if Path(log_dir).exists():
            PositionTopics(log_dir).topics()  # raises for a log of another Kafka, as the start would
        typer.echo(f"would serve {log_dir} on {server.address}")
        return
    ended = _until_signal(log_level)
    with server:
        typer.echo(f"listening on {server.address}")
        ended.wait_for_signal()
    logger.info("%s: closed the logs; the gateway ends", ended.name)


def _check(config: GatewayConfig, user: str | None) -> None:
    from ..gateway.check import CheckError, check_gateway  # noqa: PLC0415

    password = "" if user is None else asked_password(user)
    try:
        for line in check_gateway(config, user, password):
            typer.echo(line)
    except CheckError as error:
        fail(str(error))


def _page(log_dir: str, port: int) -> BrowseServer:
    """Returns the page of the log for this machine; it reads the log like any other reader."""
    with needs_extra("--browse-port"):
        from ..browse.config import BrowseConfig  # noqa: PLC0415
        from ..browse.server import BrowseServer  # noqa: PLC0415

    return BrowseServer(BrowseConfig(log_dir, Address("127.0.0.1", port)))


def _serve_metrics(server: Gateway, port: int) -> str:
    from ..gateway.metrics_server import serve_metrics  # noqa: PLC0415

    try:
        return serve_metrics(server.figures, port)
    except OSError as error:
        fail(f"cannot listen on 127.0.0.1:{port}: {error.strerror}; choose another --metrics-port")


def settings(
    conf: Path | None, listen: str | None, config: list[str] | None, more: Mapping[str, Any] | None = None
) -> GatewayConfig:
    """Returns the settings: those of the file, then those of ``--config``, then ``more`` and ``--listen``."""
    from ..gateway.config import GatewayConfig  # noqa: PLC0415

    with settings_given():
        return GatewayConfig.from_mapping(_with_listener(_given(conf, config) | dict(more or {}), listen))


def check_settings(conf: Path | None, listen: str | None, config: list[str] | None) -> CheckConfig:
    """Returns the settings for ``--check``: those of :func:`settings`, or only those that a client has."""
    from ..gateway.check import CheckConfig  # noqa: PLC0415

    with settings_given():
        return CheckConfig.from_mapping(_with_listener(_given(conf, config), listen))


def _with_listener(given: dict[str, Any], listen: str | None) -> dict[str, Any]:
    """Returns the settings with the listener of ``--listen``; if that names no protocol, the settings' own applies."""
    if listen is None:
        return given
    protocol = str(given.get("listeners", "")).partition("://")[0] or "PLAINTEXT"
    return given | {"listeners": listen if "://" in listen else f"{protocol}://{listen}"}


def _given(conf: Path | None, config: list[str] | None) -> dict[str, Any]:
    """Returns the settings of the file, then those of ``--config``."""
    given: dict[str, Any] = {} if conf is None else read_settings(conf)
    return given | parse_pairs("--config", config or ())
