"""Flags of Kafka's tools that need special treatment: optional values, subcommands, and flags that do not apply here.

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
_ONLY_TOPICS = (
    "use --topic, --entity-type brokers --entity-default for all topics, or --entity-type brokers or groups with "
    "--entity-name; clients and users have no configs here"
)
OF_ALL = {
    **dict.fromkeys(("--bootstrap-server", "--bootstrap-servers", "-b", "--broker-list"), _NO_SERVER),
    **dict.fromkeys(("--bootstrap-controller", "--zookeeper"), _NO_SERVER),
    **dict.fromkeys(("--replication-factor", "--replica-assignment"), f"{_NO_REPLICAS}; leave it out"),
    **dict.fromkeys(("--command-config", "--zk-tls-config-file", "--timeout"), _NO_SERVER),
    "--version": "use commitlog --version",
}
_REPLICAS = (
    *("--at-min-isr-partitions", "--under-min-isr-partitions", "--under-replicated-partitions"),
    "--unavailable-partitions",
)
_ENTITIES = (
    *("--broker", "--broker-logger", "--client", "--client-defaults"),
    *("--ip", "--ip-defaults", "--user", "--user-defaults", "--client-metrics", "--group"),
)
MODES = {"-C": "cat", "-P": "produce"}  # kcat's modes, and our commands
_KCAT = {
    **{mode: f"use commitlog {command}" for mode, command in MODES.items()},
    "-L": "use commitlog topics --describe",
    "-Q": "use commitlog offsets --time",
    "-X": "there is no client to configure; leave it out",
    "-G": "use commitlog cat --group GROUP --offset stored",
}
SUBCOMMANDS: Mapping[str, Mapping[str, str]] = {  # the tool's subcommands, and our flags for them
    "transactions": {"list": "", "find-hanging": "--find-hanging", "abort": "--abort"},
    **{command: {mode: ""} for mode, command in MODES.items()},
}
_SHOWN = "leave it out; without --abort, all that is known about each open transaction is shown"
_OF_ITS_START = "--abort identifies a transaction by --topic, --partition and --start-offset"
_TRANSACTIONS = {
    **dict.fromkeys(("describe", "describe-producers", "--transactional-id", "--transactional-id-pattern"), _SHOWN),
    **dict.fromkeys(("--duration-filter", "--broker-id"), _SHOWN),
    **dict.fromkeys(("--producer-id", "--producer-epoch", "--coordinator-epoch"), _OF_ITS_START),
    "forceTerminateTransaction": f"restart its query, which ends it; otherwise, {_OF_ITS_START}",
}
NOT_HERE: Mapping[str, Mapping[str, str]] = {
    "topics": {
        **dict.fromkeys(_REPLICAS, _NO_REPLICAS),
        "--delete-config": "use commitlog configs --alter --delete-config",
        "--partition-size-limit-per-response": _NO_SERVER,
    },
    "transactions": _TRANSACTIONS,
    **dict.fromkeys(MODES.values(), _KCAT),
    "configs": {**dict.fromkeys(_ENTITIES, _ONLY_TOPICS), "--force": "changes need no confirmation; leave it out"},
}


class KafkaCommand(TyperCommand):
    """A command with the flags of one of Kafka's tools."""

    def parse_args(self, ctx: Any, args: Sequence[str]) -> list[str]:
        """Parses as click does, but allows flags without their optional values and explains flags that do not apply."""
        name = ctx.info_name or ""
        known = {option for parameter in self.params for option in parameter.opts}
        words = SUBCOMMANDS.get(name, {})
        answers = {**OF_ALL, **NOT_HERE.get(name, {})}
        flags = list[str]()
        for before, arg in zip(["", *args], args, strict=False):
            is_value = self._takes_value(before)
            given = arg.partition("=")[0]
            if given in answers and given not in known and given not in words and not is_value:
                raise typer.BadParameter(f"{given}: {answers[given]}")
            flags += [arg] if is_value else filter(None, [words.get(arg, _without_mode(arg, name))])
        filled = list(_filled(flags, OPTIONAL_VALUES.get(name, frozenset())))
        parsed: list[str] = super().parse_args(ctx, filled)
        return parsed

    def _takes_value(self, flag: str) -> bool:
        """Whether the argument after ``flag`` is its value."""
        return any(flag in each.opts and not getattr(each, "is_flag", False) for each in self.params)


def _without_mode(arg: str, command: str) -> str:
    """Returns an argument of several short flags without kcat's mode: ``-e`` for ``-Ce``."""
    return f"-{arg[2:]}" if MODES.get(arg[:2]) == command and len(arg) > 2 else arg


def as_command(args: Sequence[str]) -> list[str]:
    """Returns ``args`` of ``commitlog`` with the command first: ``-C -t orders`` becomes ``cat -t orders``, as in kcat.

    Explains flags before the command that do not apply here.
    """
    first = args[0] if args else ""
    mode = next((arg for arg in args if arg in MODES), None) if first.startswith("-") else None
    if mode is not None:
        return [MODES[mode], *(arg for arg in args if arg != mode)]
    answers = {**OF_ALL, **_KCAT}
    del answers["--version"]
    if (given := first.partition("=")[0]) in answers:
        raise typer.BadParameter(f"{given}: {answers[given]}")
    return list(args)


def _filled(args: Sequence[str], optional: frozenset[str]) -> Iterator[str]:
    """Yields ``args``; a flag in ``optional`` without a value (it is last, or a flag follows) becomes ``--flag=``."""
    for arg, following in zip_longest(args, args[1:], fillvalue="-"):
        yield f"{arg}=" if arg in optional and following.startswith("-") else arg
