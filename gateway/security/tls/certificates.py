"""The server's side of TLS, from PEM files by Kafka's settings."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping, Sequence
from typing import Any

from ....storage import InvalidConfigError

CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_SHORT = {  # of attributes in a name, as Java shows them (RFC 2253)
    "commonName": "CN",
    "organizationalUnitName": "OU",
    "organizationName": "O",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
# As Java escapes values (``AVA.toRFC2253String``): more than the RFC asks for.
_ESCAPED = str.maketrans({**{each: f"\\{each}" for each in ',=+<>#;"\\'}, "\0": "\\00"})
_SPACES_AROUND = re.compile(r"\A[ \r]+|[ \r]+\Z")


def tls_context(
    *, keystore: str, key_password: str, truststore: str, client_auth: str, versions: Sequence[str]
) -> ssl.SSLContext:
    """Returns the server's TLS context. Raises InvalidConfigError, which names the file, if a file cannot be used.

    ``keystore``: a PEM file with the private key and the certificate chain. ``truststore``: a PEM file with the
    authorities that sign clients' certificates; empty: none.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = min(_VERSIONS[each] for each in versions)
    context.maximum_version = max(_VERSIONS[each] for each in versions)
    context.options |= ssl.OP_NO_RENEGOTIATION
    _load("ssl.keystore.location", keystore, lambda: context.load_cert_chain(keystore, password=lambda: key_password))
    if truststore:
        _load("ssl.truststore.location", truststore, lambda: context.load_verify_locations(truststore))
    context.verify_mode = CLIENT_AUTH[client_auth]
    return context


def _load(key: str, path: str, load: Any) -> None:
    try:
        load()
    except ssl.SSLError as error:
        raise InvalidConfigError(f"{key} = {path!r}: {error.reason or 'not a PEM file'}") from None
    except OSError as error:
        raise InvalidConfigError(f"{key} = {path!r}: {error.strerror}") from None


def principal_of(certificate: Mapping[str, Any] | None) -> str | None:
    """Returns the name of a certificate's owner in Kafka's form, such as ``CN=name,O=company``; None for None."""
    if not certificate:
        return None
    parts = [
        "+".join(f"{_SHORT.get(name, name)}={_escaped(value)}" for name, value in part)
        for part in reversed(certificate.get("subject", ()))
    ]
    return ",".join(parts)


def _escaped(value: str) -> str:
    return _SPACES_AROUND.sub(lambda found: "".join(f"\\{each}" for each in found[0]), value.translate(_ESCAPED))
