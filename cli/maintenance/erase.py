"""``commitlog erase``: removes the records with given keys, or for which a condition is true, and proves it."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ... import storage
from ..arguments import settings_given
from ..flags import AsJson, DryRun, LogDir
from .run import Asked, Config, TopicConfigs, Topics, Wait, carry_out, option


class KeyForm(StrEnum):
    """The encoding of keys in a file."""

    TEXT = "text"
    HEX = "hex"
    BASE64 = "base64"


KeysFile = Annotated[str | None, option("keys_file")]
Where = Annotated[str | None, option("where")]
KeysAs = Annotated[KeyForm, option("keys_as")]
Reason = Annotated[str | None, option("reason")]
Certificate = Annotated[str | None, option("certificate")]
WithKeys = Annotated[bool, option("with_keys")]
Check = Annotated[str | None, option("check")]


def erase(
    *,
    log_dir: LogDir,
    topics: Topics = None,
    keys_file: KeysFile = None,
    where: Where = None,
    keys_as: KeysAs = KeyForm.TEXT,
    reason: Reason = None,
    certificate: Certificate = None,
    with_keys: WithKeys = False,
    check: Check = None,
    config: Config = None,
    topic_configs: TopicConfigs = None,
    dry_run: DryRun = False,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Erase records by their keys, or by a condition, from topics, in every segment, and write a certificate of it.

    The offsets of all other records stay. Closed segments are replaced as by compaction; the active one is rolled
    first. Then everything is read again and searched for them. A broker must be stopped. After a crash, run it
    again with the same --certificate.
    """
    asked = Asked(log_dir, topics, config, as_json, dry_run, wait, topic_configs)
    if check is not None:
        claim = storage.ErasureClaim.read(check)
        asked = Asked(log_dir, topics or claim.topics, config, as_json, topic_configs=topic_configs)
        carry_out("erase --check", asked, partial(storage.check_erased_partitions, claim=claim))
        return
    if (keys_file is None) == (where is None) or reason is None or not topics:
        raise typer.BadParameter(
            "give --topics, --keys-file and --reason, or --where in the place of --keys-file, or --check CERTIFICATE"
        )
    path = certificate or storage.certificate_name(storage.SystemClock().now_ms())
    records = _chosen_by(where) if keys_file is None else storage.AskedKeys.read(keys_file, keys_as.value)
    request = storage.Erasure(records, reason, tuple(topics), path, with_keys)
    try:
        carry_out("erase", asked, partial(storage.erase_partitions, asked=request))
    finally:
        if not dry_run and Path(path).exists():
            typer.echo(f"certificate: {path}", err=as_json)


def _chosen_by(where: str | None) -> storage.RecordChoice:
    with storage.needs_extra("--where", extra="find"):
        from ...arrow.choice import SqlChoice  # noqa: PLC0415  needs pyarrow

    assert where is not None
    with settings_given():
        return SqlChoice(where)
