"""Flags of Kafka's tools that a command line of ours takes otherwise: with an optional value, or not at all.

The tools parse with jopt-simple, where an option's value may be missing: ``--list --state``. And what talks to brokers
means nothing on a log directory; such a flag is refused with what to do, rather than as unknown.
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

_NO_SERVER = "no server is asked: --log-dir names the log directory"
_NO_REPLICAS = "a log directory has one copy of each partition, and none that could lag behind"
_ONLY_TOPICS = "only topics have configs here: --topic names one"
OF_ALL = {
    **dict.fromkeys(("--bootstrap-server", "--broker-list", "--bootstrap-controller", "--zookeeper"), _NO_SERVER),
    **dict.fromkeys(("--command-config", "--zk-tls-config-file", "--timeout"), _NO_SERVER),
    "--version": "commitlog --version prints it",
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
        "--delete-config": "commitlog configs --alter --delete-config takes configs back",
        "--partition-size-limit-per-response": _NO_SERVER,
    },
    "configs": {**dict.fromkeys(_ENTITIES, _ONLY_TOPICS), "--force": "nothing is asked before a change: leave it out"},
}


class KafkaCommand(TyperCommand):
    """A command with the flags of one of Kafka's tools."""

    def parse_args(self, ctx: Any, args: Sequence[str]) -> list[str]:
        """As click does it, with the values that may be missing, and answers to flags that are not here."""
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
    """With an empty value where one is missing: at the end, and before another flag."""
    for arg, following in zip_longest(args, args[1:], fillvalue="-"):
        yield f"{arg}=" if arg in optional and following.startswith("-") else arg
