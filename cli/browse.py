"""``commitlog browse``: serves a page that shows what is in a log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..storage import InvalidConfigError, location, log_to_stderr, parse_address
from .arguments import settings_given
from .flags import LogDir
from .schemas import Registry, RegistryHeaders, SchemaFolder, framing_of
from .signals import until_signal

if TYPE_CHECKING:
    from ..arrow.values.avro.serde import Framing
    from ..browse.config import BrowseConfig
    from ..browse.decoding import DecodeAvro

REGISTRY_TIMEOUT_S = 3  # a page waits for it

Listen = Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to listen; port 0: any free port.")]
TokenFile = Annotated[
    Path | None,
    typer.Option(help="A file with what people log in with; with --ssl-keystore, the page may serve other machines."),
]
Keystore = Annotated[
    str, typer.Option("--ssl-keystore", metavar="FILE", help="A PEM file with a private key and its certificates: TLS.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Serve nothing; print what would be served, and where.")]


def browse(
    *,
    log_dir: LogDir,
    listen: Listen = "127.0.0.1:8080",
    token_file: TokenFile = None,
    ssl_keystore: Keystore = "",
    registry: Registry = None,
    registry_headers: RegistryHeaders = None,
    schema_folder: SchemaFolder = None,
    dry_run: DryRun = False,
) -> None:
    """Serve a page for a browser that shows topics, segments and records, and changes nothing.

    Works on our log directories, on a broker's, and on a log on an object store. Takes no lock. Prints the address and
    runs until SIGTERM or Ctrl-C. By default only this machine can connect. It needs the extra [browse].
    """
    log_dir = location(log_dir)
    with settings_given():
        avro = _decode_with(framing_of(registry, registry_headers, schema_folder, timeout_s=REGISTRY_TIMEOUT_S))
        config = _config(log_dir, listen, token_file, ssl_keystore, avro)
    from ..browse.server import BrowseServer  # noqa: PLC0415  needs the extra

    server = BrowseServer(config)
    if dry_run:
        typer.echo(f"would serve {config.log_dir} on {server.url}")
        return
    log_to_stderr()
    ended = until_signal()
    with server:
        typer.echo(server.url)
        ended.wait_for_signal()


def _config(log_dir: str, listen: str, token_file: Path | None, keystore: str, avro: DecodeAvro | None) -> BrowseConfig:
    from ..browse.config import BrowseConfig  # noqa: PLC0415

    token = "" if token_file is None else _token(token_file)
    return BrowseConfig(log_dir, parse_address("--listen", listen), token, keystore, avro)


def _decode_with(framing: Framing | None) -> DecodeAvro | None:
    if framing is None:
        return None
    from ..arrow.values.avro.as_json import AvroAsJson  # noqa: PLC0415
    from ..browse.decoding import AvroText  # noqa: PLC0415

    decode = AvroAsJson(framing)
    return lambda value: AvroText(*decode(value))


def _token(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not text"
        raise InvalidConfigError(f"--token-file {file}: {why}") from None
