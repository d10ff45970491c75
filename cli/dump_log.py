"""``commitlog dump-log``: the flags and the text of ``kafka-dump-log``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from pyspark_commitlog import storage

STRING_DECODERS = ("string", "org.apache.kafka.tools.api.StringDecoder", "kafka.serializer.StringDecoder")


class Format(StrEnum):
    """Layouts of the text; ``3.0`` is that of 3.0 to 3.2, ``legacy`` that of releases up to 2.7."""

    KAFKA = "kafka"
    V3_0 = "3.0"
    V2_8 = "2.8"
    LEGACY = "legacy"
    JSON = "json"


def _string_decoder(name: str | None) -> str | None:
    if name and name not in STRING_DECODERS:
        raise typer.BadParameter(f"{name!r} is a Java class; only {STRING_DECODERS[0]!r} can be used here")
    return name


def dump_log(  # the flags are those of kafka-dump-log
    *,
    files: Annotated[list[str], typer.Option(help="Files of a log, separated by commas; may be given again.")],
    deep_iteration: Annotated[bool, typer.Option("--deep-iteration", help="Print records, not only batches.")] = False,
    print_data_log: Annotated[
        bool, typer.Option("--print-data-log", help="Print keys and values; implied by any decoder.")
    ] = False,
    verify_index_only: Annotated[
        bool, typer.Option("--verify-index-only", help="Compare indexes with the log, print no entries.")
    ] = False,
    index_sanity_check: Annotated[
        bool, typer.Option("--index-sanity-check", help="Only check what a broker checks of an index at start.")
    ] = False,
    offsets_decoder: Annotated[
        bool, typer.Option("--offsets-decoder", help="Records are those of __consumer_offsets.")
    ] = False,
    transaction_log_decoder: Annotated[
        bool, typer.Option("--transaction-log-decoder", help="Records are those of __transaction_state.")
    ] = False,
    cluster_metadata_decoder: Annotated[
        bool, typer.Option("--cluster-metadata-decoder", help="Records are those of __cluster_metadata.")
    ] = False,
    remote_log_metadata_decoder: Annotated[
        bool, typer.Option("--remote-log-metadata-decoder", help="Records are those of __remote_log_metadata.")
    ] = False,
    share_group_state_decoder: Annotated[
        bool, typer.Option("--share-group-state-decoder", help="Records are those of __share_group_state.")
    ] = False,
    skip_record_metadata: Annotated[
        bool, typer.Option("--skip-record-metadata", help="Of records, print only key and value.")
    ] = False,
    max_bytes: Annotated[int, typer.Option(min=0, help="Of a .log, read only so many bytes.")] = 2**31 - 1,
    max_message_size: Annotated[
        int, typer.Option(min=0, help="The largest batch looked for at an index entry, in bytes.")
    ] = 5 * 1024 * 1024,
    key_decoder_class: Annotated[
        str | None, typer.Option(callback=_string_decoder, help="Only 'string', which it is without it.")
    ] = None,
    value_decoder_class: Annotated[
        str | None, typer.Option(callback=_string_decoder, help="Only 'string', which it is without it.")
    ] = None,
    format: Annotated[Format, typer.Option(help="The release whose layout is used, or one JSON object a line.")] = (
        Format.KAFKA
    ),
) -> None:
    """Print what is in the files of a log, as kafka-dump-log does.

    Findings (index entries that name another offset than the log, gaps between offsets) follow on stderr and are no
    failure; a file that cannot be read on is, when the others have been printed.
    """
    decoders: dict[storage.PayloadDecoder, bool] = {  # of several the first counts, as with Kafka's tool
        "offsets": offsets_decoder,
        "transaction-log": transaction_log_decoder,
        "cluster-metadata": cluster_metadata_decoder,
        "remote-log-metadata": remote_log_metadata_decoder,
        "share-group-state": share_group_state_decoder,
    }
    options = storage.DumpOptions(
        deep_iteration=deep_iteration,
        print_data_log=print_data_log or key_decoder_class is not None or value_decoder_class is not None,
        skip_record_metadata=skip_record_metadata,
        decoder=next((name for name, is_asked in decoders.items() if is_asked), "string"),
        max_bytes=max_bytes,
        verify_index_only=verify_index_only,
        index_sanity_check=index_sanity_check,
        max_message_size=max_message_size,
        format=format.value,
    )
    paths = [path for given in files for path in given.split(",") if path]
    if not _print(paths, options):
        raise typer.Exit(1)


def _print(paths: list[str], options: storage.DumpOptions) -> bool:
    """Whether every file could be read to its end."""
    output = typer.get_binary_stream("stdout")
    findings = storage.DumpFindings()
    failures = []
    for path in paths:
        try:
            for lines in storage.dump_file(path, options, findings):
                if lines:
                    output.write(("\n".join(lines) + "\n").encode("utf-8", "surrogatepass"))
        except storage.LogStoreError as error:
            failures.append(f"commitlog: {error}")
    output.flush()
    for line in (*findings.lines(), *failures):
        typer.echo(line, err=True)
    return not failures
