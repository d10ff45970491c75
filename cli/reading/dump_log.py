"""``commitlog dump-log``: ``kafka-dump-log``, with its flags and output."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from ... import storage

STRING_DECODERS = ("string", "org.apache.kafka.tools.api.StringDecoder", "kafka.serializer.StringDecoder")


class Format(StrEnum):
    """Output layouts; ``kafka`` is that of 3.9, ``3.0`` that of 3.0 to 3.2, ``legacy`` that of releases up to 2.7."""

    KAFKA = "kafka"
    V4_0 = "4.0"
    V3_0 = "3.0"
    V2_8 = "2.8"
    LEGACY = "legacy"
    JSON = "json"


def _string_decoder(name: str | None) -> str | None:
    if name and name not in STRING_DECODERS:
        raise typer.BadParameter(f"{name!r} is a Java class; only {STRING_DECODERS[0]!r} can be used here")
    return name


Files = Annotated[list[str], typer.Option(help="Files of a log to print, separated by commas. Repeatable.")]
DeepIteration = Annotated[bool, typer.Option("--deep-iteration", help="Print records, not only batches.")]
PrintDataLog = Annotated[bool, typer.Option("--print-data-log", help="Print keys and values; implied by any decoder.")]
VerifyIndexOnly = Annotated[
    bool, typer.Option("--verify-index-only", help="Compare indexes with the log; print no entries.")
]
IndexSanityCheck = Annotated[
    bool, typer.Option("--index-sanity-check", help="Only run a broker's startup checks of an index.")
]
OffsetsDecoder = Annotated[bool, typer.Option("--offsets-decoder", help="Decode records of __consumer_offsets.")]
TransactionLogDecoder = Annotated[
    bool, typer.Option("--transaction-log-decoder", help="Decode records of __transaction_state.")
]
ClusterMetadataDecoder = Annotated[
    bool, typer.Option("--cluster-metadata-decoder", help="Decode records of __cluster_metadata.")
]
RemoteLogMetadataDecoder = Annotated[
    bool, typer.Option("--remote-log-metadata-decoder", help="Decode records of __remote_log_metadata.")
]
ShareGroupStateDecoder = Annotated[
    bool, typer.Option("--share-group-state-decoder", help="Decode records of __share_group_state.")
]
SkipRecordMetadata = Annotated[
    bool, typer.Option("--skip-record-metadata", help="Print only the keys and values of records.")
]
MaxBytes = Annotated[int, typer.Option(min=0, help="Read only this many bytes of each .log.")]
MaxMessageSize = Annotated[
    int, typer.Option(min=0, help="Read at most this many bytes to find the batch of an index entry.")
]
DecoderClass = Annotated[str | None, typer.Option(callback=_string_decoder, help="Must be 'string', the default.")]
Layout = Annotated[Format, typer.Option(help="Use the layout of this release, or print one JSON object per line.")]


def dump_log(  # the flags are those of kafka-dump-log
    *,
    files: Files,
    deep_iteration: DeepIteration = False,
    print_data_log: PrintDataLog = False,
    verify_index_only: VerifyIndexOnly = False,
    index_sanity_check: IndexSanityCheck = False,
    offsets_decoder: OffsetsDecoder = False,
    transaction_log_decoder: TransactionLogDecoder = False,
    cluster_metadata_decoder: ClusterMetadataDecoder = False,
    remote_log_metadata_decoder: RemoteLogMetadataDecoder = False,
    share_group_state_decoder: ShareGroupStateDecoder = False,
    skip_record_metadata: SkipRecordMetadata = False,
    max_bytes: MaxBytes = 2**31 - 1,
    max_message_size: MaxMessageSize = 5 * 1024 * 1024,
    key_decoder_class: DecoderClass = None,
    value_decoder_class: DecoderClass = None,
    format: Layout = Format.KAFKA,
) -> None:
    """Print the contents of a log's files, as kafka-dump-log does.

    Findings (index entries whose offset is not the log's, gaps between offsets) are printed to stderr at the end and
    do not change the exit code. An unreadable file is reported after the other files; the exit code is then 1.
    """
    decoders: dict[storage.PayloadDecoder, bool] = {  # if several are given, the first one counts, as in Kafka's tool
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


def _located(path: str) -> tuple[str, storage.FileSystem | None]:
    """Returns a path, and for a log on an object store the file system that shows it."""
    if not storage.is_store_url(path):
        return path, None
    root, *names = path.rsplit("/", 2)
    files = storage.open_files(root)
    return "/".join([files.root, *names]), files


def _print(paths: list[str], options: storage.DumpOptions) -> bool:
    """Prints the files, then the findings and errors. Returns whether all files could be read to the end."""
    output = typer.get_binary_stream("stdout")
    findings = storage.DumpFindings(in_words_of_4=options.format == "4.0")
    failures = []
    for path in paths:
        try:
            located, filesystem = _located(path)
            for lines in storage.dump_file(located, options, findings, filesystem):
                if lines:
                    output.write(("\n".join(lines) + "\n").encode("utf-8", "surrogatepass"))
        except storage.LogStoreError as error:
            failures.append(f"commitlog: {error}")
    output.flush()
    for line in (*findings.lines(), *failures):
        typer.echo(line, err=True)
    return not failures
