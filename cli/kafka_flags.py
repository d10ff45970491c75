"""Flags of Kafka's tools that need special treatment: those with an optional value, and those that do not apply here.

Kafka parses with jopt-simple, where an option's value may be optional: ``--list --state``. Flags about brokers mean
nothing on a log directory; they are rejected with advice rather than as unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import typer
from typer.core import TyperCommand

OPTIONAL_VALUES: Mapping[str, frozenset[str]] = {
    "groups": frozenset({"--state", "--type"}),
    "dump-log": frozenset({"--key-decoder-class", "--value-decoder-class"}),
}

_NO_SERVER = "there is no server; name the log directory with --log-dir"
_NO_REPLICAS = "there are no replicas; a log directory has one copy of each partition"
_ONLY_TOPICS = "only topics have configs here; name one with --topic"
OF_ALL = {
    **dict.fromkeys(("--bootstrap-server", "--broker-list", "--bootstrap-controller", "--zookeeper"), _NO_SERVER),
    **dict.fromkeys(("--command-config", "--zk-tls-config-file", "--timeout"), _NO_SERVER),
    "--version": "use commitlog --version",
}
_REPLICAS = (
    *("--at-min-isr-partitions", "--under-min-isr-partitions", "--under-replicated-partitions"),
    *("--unavailable-partitions", "--replica-assignment"),
)
_ENTITIES = (
    *("--broker", "--broker-defaults", "--broker-logger", "--client", "--client-defaults", "--entity-default"),
    *("--ip", "--ip-defaults", "--user", "--user-defaults"),
)
NOT_HERE: Mapping[str, Mapping[str, str]] = {
    "topics": {
        **dict.fromkeys(_REPLICAS, _NO_REPLICAS),
        "--delete-config": "use commitlog configs --alter --delete-config",
        "--partition-size-limit-per-response": _NO_SERVER,
    },
    "configs": {**dict.fromkeys(_ENTITIES, _ONLY_TOPICS), "--force": "changes need no confirmation; leave it out"},
}


class KafkaCommand(TyperCommand):
    """A command with the flags of one of Kafka's tools."""

    def parse_args(self, ctx: Any, args: Sequence[str]) -> list[str]:
        """Parses as click does, but fills in optional values and explains flags that do not apply here."""
        name = ctx.info_name or ""
        known = {option for parameter in self.params for option in parameter.opts}
        answers = {**OF_ALL, **NOT_HERE.get(name, {})}
        for given in (arg.partition("=")[0] for arg in args):
            if given in answers and given not in known:
                raise typer.BadParameter(f"{given}: {answers[given]}")
        filled = list(_filled(args, OPTIONAL_VALUES.get(name, frozenset())))
        parsed: list[str] = super().parse_args(ctx, filled)
        return parsed


def _filled(args: Sequence[str], optional: frozenset[str]) -> Iterator[str]:
    """Yields the arguments, with an empty value for each optional flag that ends them or precedes another flag."""
    for arg, following in zip_longest(args, args[1:], fillvalue="-"):
        yield f"{arg}=" if arg in optional and following.startswith("-") else arg
