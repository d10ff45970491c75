"""Cluster: the settings of a client of brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from ...storage import InvalidConfigError, did_you_mean, is_secret, masked
from ..errors import MirrorError, RetriableError
from .kafka_python import KafkaConnectionManager, KafkaError

_DEFAULTS = {"receive_message_max_bytes": 2**31 - 1}  # an answer has as much as is asked for, or one larger batch
AnswerT = TypeVar("AnswerT")


class Secret(str):
    """Text whose ``repr`` is ``'***'``: kafka-python logs the ``repr`` of its settings for debugging."""

    def __repr__(self) -> str:
        return "'***'"


@dataclass(frozen=True)
class Cluster:
    """The settings of a client of brokers, which are sent to workers. ``repr`` and errors do not show their secrets."""

    settings: dict[str, Any]  # by kafka-python's names

    @classmethod
    def parse(cls, bootstrap_servers: str, settings: Mapping[str, str]) -> Self:
        """Returns the settings of a client; names are kafka-python's, or Kafka's, such as ``security.protocol``.

        Raises InvalidConfigError, which names the setting, if one is unknown.
        """
        known = KafkaConnectionManager.DEFAULT_CONFIG
        given = {name.replace(".", "_"): value for name, value in settings.items()}
        for name in given:
            if name not in known:
                raise InvalidConfigError(f"unknown client setting {name!r}{did_you_mean(name, known)}")
        hidden = {name: Secret(value) if is_secret(name) else value for name, value in given.items()}
        return cls({"bootstrap_servers": bootstrap_servers} | _DEFAULTS | hidden)

    def __str__(self) -> str:
        return f"Kafka at {self.settings['bootstrap_servers']}"


def masking_errors(cluster: Cluster, ask: Callable[[], AnswerT]) -> AnswerT:
    """Returns what ``ask`` returns.

    Raises RetriableError in place of kafka-python's retriable errors, and MirrorError in place of others, without
    secrets.
    """
    try:
        return ask()
    except KafkaError as error:
        kind = RetriableError if error.retriable else MirrorError
        raise kind(f"{cluster}: {masked(str(error))}") from error
