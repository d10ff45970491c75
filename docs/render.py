"""The pages made from the code: ``python docs/render.py`` writes them, and a test holds them to it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pyspark_commitlog.storage import CleanerConfig, Key, LogConfig, keys_of

CONFIGURATION = Path(__file__).with_name("configuration.md")
HEAD = """\
# Configuration reference

Made from the code by `docs/render.py`. Names, defaults and bounds are Kafka's (3.9), but for `max.decompressed.bytes`,
which is our own: Kafka decompresses whatever a batch holds.

## Where settings stand

| what | where |
| --- | --- |
| a topic's settings | given when the topic is made, kept in `topics.json`, changed by `commitlog configs --alter` |
| settings of one run of a job | `--config key=value`, before the topic's own; a broker's keys behind them |
| settings of the cleaner | `--config log.cleaner.…` of `jobs/compact.py` |
| the same, when it is made | `configs=` of the sink, `[topics.<name>]` in `conf/local.toml`, `commitlog topics` |
| a directory that a broker left | has [none](scheduling.md#a-brokers-directory), and by defaults nothing is deleted |

A topic's key counts first, then the broker's keys in the last column in their order, then the default.
No limit is 9223372036854775807, the largest number of 64 bits.
"""
TOPIC_HEAD = """\
## Settings of a topic

| key | default | values | meaning | broker's key |
| --- | --- | --- | --- | --- |
"""
CLEANER_HEAD = """\
## Settings of compaction

| key | default | values | meaning |
| --- | --- | --- | --- |
"""
NO_EFFECT = """\
## Settings that are taken and do nothing

They belong to what only a broker does; a notice names those that are given.
"""
KAFKAS_TYPES = {"a whole number of 32 bits": "int", "a whole number of 64 bits": "long", "a number": "double"}
NAMES_OF_LIMITS = {str(2**63 - 1): "no limit", "1.7976931348623157e+308": "no limit"}


def configuration() -> str:
    """The text of configuration.md."""
    topic = list(keys_of(LogConfig).values())
    parts = [
        HEAD,
        TOPIC_HEAD + _rows([*_cells(key), _broker_keys(key)] for key in topic if key.has_effect),
        CLEANER_HEAD + _rows(_cells(key) for key in keys_of(CleanerConfig).values()),
        NO_EFFECT + "\n" + "".join(f"- `{key.name}`\n" for key in topic if not key.has_effect),
    ]
    return "\n".join(parts)


def _cells(key: Key) -> list[str]:
    default = key.kind.render(key.default)
    values = ", ".join(filter(None, [KAFKAS_TYPES.get(key.kind.name, key.kind.name), str(key.bounds)]))
    return [f"`{key.name}`", NAMES_OF_LIMITS.get(default, f"`{default}`"), values, key.doc]


def _broker_keys(key: Key) -> str:
    if not key.is_kafkas:
        return "none: Kafka does not know it"
    return "<br>".join(f"`{synonym.name}`" for synonym in key.synonyms)


def _rows(rows: Iterable[list[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


if __name__ == "__main__":
    CONFIGURATION.write_text(configuration(), encoding="utf-8")
