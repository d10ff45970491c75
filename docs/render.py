"""Generates docs/configuration.md from the code: ``python docs/render.py``. A test checks that it is up to date."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pyspark_commitlog.storage import CleanerConfig, Key, LogConfig, keys_of

CONFIGURATION = Path(__file__).with_name("configuration.md")
HEAD = """\
# Configuration reference

This page is generated from the code by `docs/render.py`. Names, defaults and bounds are those of
Kafka 3.9, except for two of ours: `max.decompressed.bytes`, since Kafka decompresses whatever a batch
contains, and `keyfilter.enable` ([key filters](find.md#key-filters)).

## Where to set them

| settings | where |
| --- | --- |
| of a new topic | `configs=` of the sink, `[topics.<name>]` in a settings file of `ingest`, `commitlog topics` |
| of an existing topic | in `topics.json`; change them with `commitlog configs --alter` |
| of all topics without their own | broker keys in `topics.json`: `commitlog configs --broker-defaults --alter` |
| of one run of a job | `--config key=value`: topic keys override the topic's own, broker keys are defaults for them |
| of the cleaner | `--config log.cleaner.…` of `commitlog compact` |
| of deletion on an object store | `--config staged.retention.ms=…`, [`delete.grace.ms`](object_store.md#maintenance) |
| of a directory made by a broker | [none](scheduling.md#a-brokers-directory): nothing is deleted because of a default |

A topic's own key takes precedence, then the broker's keys in the last column, in their order, then
the default. A broker's key given for one run takes the place of the same key of the directory, as a
dynamic setting of a broker does for a static one. "No limit" is 9223372036854775807, the largest 64-bit number.
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
## Settings without effect

They concern what only a broker does. They are accepted, and a notice names the ones that were given.
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
        return "none: not a Kafka setting"
    return "<br>".join(f"`{synonym.name}`" for synonym in key.synonyms)


def _rows(rows: Iterable[list[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


if __name__ == "__main__":
    CONFIGURATION.write_text(configuration(), encoding="utf-8")
