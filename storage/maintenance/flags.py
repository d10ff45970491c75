"""The flags of maintenance: the commands (typer) and the jobs (argparse) take them from here, each in its own form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Flag(NamedTuple):
    """A flag of a command line."""

    help: str
    metavar: str | None = None  # None: it has no value
    is_repeatable: bool = False
    names: tuple[str, ...] = ()  # if there are several; by default the one made from the parameter's name

    @property
    def text(self) -> str:
        """The help, with a note if the flag is repeatable."""
        return f"{self.help} Repeatable." if self.is_repeatable else self.help

    def names_for(self, parameter: str) -> tuple[str, ...]:
        """The names as they are typed; ``parameter``: the key in the table."""
        return self.names or (f"--{parameter.replace('_', '-')}",)


# By parameter; those of one operation come after those of all.
MAINTENANCE_FLAGS: Mapping[str, Flag] = {
    "topics": Flag(
        "Select topics by name or by regular expressions for whole names, separated by commas (default: all).",
        "NAMES",
        is_repeatable=True,
        names=("--topics", "--topic", "-t"),
    ),
    "config": Flag(
        "Override a setting, by Kafka's name, for this run; a broker's key is used only if the topic has none.",
        "KEY=VALUE",
        is_repeatable=True,
    ),
    "topic_configs": Flag(
        "Read the settings of a broker's topics from a file with the output of kafka-configs --describe --all or "
        "kafka-topics --describe.",
        "FILE",
        is_repeatable=True,
    ),
    "as_of": Flag("Act as of this time: ISO 8601 (UTC), or milliseconds since 1970.", "TIME"),
    "every": Flag("Go on until stopped, with a run every '5 minutes' or the like.", "TIME"),
    "wait": Flag("Wait for partitions that another process is maintaining."),
    "keep_for_groups": Flag(
        "Keep what these consumer groups have not read; separated by commas.", "GROUPS", is_repeatable=True
    ),
    "keep_for_tables": Flag(
        "Keep what these exported tables do not have; as --keep-for-groups.", "PATHS", is_repeatable=True
    ),
    "policy": Flag(
        "Use a retention policy of your own instead of retention.ms and retention.bytes.", "PACKAGE.MODULE:CLASS"
    ),
    "policy_option": Flag("Pass this keyword argument to the policy.", "KEY=VALUE", is_repeatable=True),
    "keys_file": Flag("A file with a key on each line; all their records are erased.", "FILE"),
    "where": Flag(
        "Instead of keys: erase the records for which this is true, as in commitlog find. Needs the extra [find].",
        "SQL",
    ),
    "keys_as": Flag("How the file has keys: as they are, or as hex or base64 digits.", "text|hex|base64"),
    "reason": Flag("Why, for the certificate.", "TEXT"),
    "certificate": Flag(
        "Where to write the certificate, or the one of a run to complete; erased-TIME.json if not given.", "FILE"
    ),
    "with_keys": Flag("Name the keys in the certificate, not salted hashes."),
    "check": Flag("Erase nothing: search again for what it states is erased.", "CERTIFICATE"),
}
