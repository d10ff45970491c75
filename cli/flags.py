"""Flags shared by several commands, and their shell completion."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated

import typer

from .. import storage


def flag(name: str) -> str:
    """Returns the flag of a parameter: ``--to-offset`` for ``to_offset``."""
    return f"--{name.replace('_', '-')}"


def only(**actions: bool) -> str:
    """Returns the one flag of ``actions`` that was given; none or several are wrong usage (exit code 2)."""
    asked = [name for name, is_asked in actions.items() if is_asked]
    if len(asked) != 1:
        raise typer.BadParameter(f"give exactly one of {', '.join(map(flag, actions))}")
    return flag(asked[0])


def check_goes_with(action: str, actions: Collection[str], **given: object) -> None:
    """Exits with 2 if a flag of ``given``, by parameters, was given although ``action`` is none of ``actions``.

    A flag without effect is a mistake: ``--delete --topic orders`` asks for less than ``--delete`` does.
    """
    unused = [flag(name) for name, value in given.items() if value is not None and value is not False and value != []]
    if unused and action not in actions:
        raise typer.BadParameter(f"{unused[0]} goes with {' or '.join(actions)} only, not with {action}")


def complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the topics that begin with ``incomplete``, for the shell; none before --log-dir is typed or on errors."""
    try:
        with storage.LogManager.open(ctx.params.get("log_dir") or "") as manager:
            return [name for name in manager.topics() if name.startswith(incomplete)]
    except (storage.LogStoreError, OSError):
        return []


def located(log_dir: str | None, tier: str | None, keys: list[str] | None) -> str:
    """Returns the location for ``LogManager.open``: a log directory, its tier, or both; neither is wrong usage (2)."""
    if tier is not None:
        try:
            return str(storage.tier_address(tier, log_dir, keys or ()))
        except storage.InvalidConfigError as error:
            raise typer.BadParameter(f"--tier: {error}") from None
    if log_dir is None:
        raise typer.BadParameter("give --log-dir, --tier, or both")
    return log_dir


class LogLayout(StrEnum):
    """The forms of log directories that commands read."""

    KAFKA = "kafka"
    KAFKA_0_7 = "kafka-0.7"

    @property
    def is_0_7(self) -> bool:
        return self is LogLayout.KAFKA_0_7


Layout = Annotated[
    LogLayout, typer.Option(help="kafka-0.7: the directory is one of Kafka 0.7, whose offsets are byte positions.")
]
TOPIC = ("--topic", "-t", "--topics")  # the spellings of Kafka's tools, of kcat, and of the jobs
LogDir = Annotated[
    str, typer.Option(envvar="COMMITLOG_LOG_DIR", help="The log directory, as in Kafka's log.dirs.", show_envvar=True)
]
TierUrl = Annotated[
    str | None,
    typer.Option(
        "--tier",
        help="The directory or the URL of tiered storage: alone, or with --log-dir for what is before its segments.",
    ),
]
TierKeys = Annotated[
    list[str] | None, typer.Option("--tier-key", help="A file with a private key, for a tier with encrypted segments.")
]
MaybeLogDir = Annotated[
    str | None,
    typer.Option(envvar="COMMITLOG_LOG_DIR", help="The log directory, as in Kafka's log.dirs.", show_envvar=True),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing; print what would change.")]
TopicNames = Annotated[
    str | None,
    typer.Option(
        *TOPIC, autocompletion=complete_topic, help="A topic, or a regular expression that matches whole names."
    ),
]
OneTopic = Annotated[str | None, typer.Option(*TOPIC, autocompletion=complete_topic, help="A topic.")]
