"""Settings of the page. BrowseConfig refuses settings that would show a log to other machines without a login."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..storage import Address, InvalidConfigError, is_loopback
from .decoding import DecodeAvro

DEFAULT_ADDRESS = Address("127.0.0.1", 8080)
TOKEN_LENGTH_MIN = 16  # characters: too many to guess, at any number of attempts per second


@dataclass(frozen=True)
class BrowseConfig:
    """The log to serve, the address, and the login.

    Raises InvalidConfigError for an address that needs a token and TLS.
    """

    log_dir: str  # a directory, ours or a broker's, or the URL of a log on an object store
    address: Address = DEFAULT_ADDRESS  # port 0: any free port
    token: str = field(default="", repr=False)  # the password of the login; empty: there is no login
    keystore: str = ""  # a PEM file with a private key and its chain of certificates; empty: no TLS
    decode_avro: DecodeAvro | None = None  # None: values of Avro are shown as hex

    def __post_init__(self) -> None:
        if self.token and len(self.token) < TOKEN_LENGTH_MIN:
            raise InvalidConfigError(
                f"the token has {len(self.token)} characters: it needs at least {TOKEN_LENGTH_MIN}; make one with: "
                "openssl rand -hex 16"
            )
        missing = " and ".join(
            flag for flag, given in (("--token-file", self.token), ("--ssl-keystore", self.keystore)) if not given
        )
        if missing and not is_loopback(self.address.host):
            raise InvalidConfigError(
                f"--listen {self.address}: other machines could read the log; give {missing} too, or listen on "
                "127.0.0.1"
            )
