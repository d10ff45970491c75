"""What the log says of a client whose TLS fails."""

from __future__ import annotations

import ssl

import pytest

from pyspark_commitlog.gateway.network.tls_socket import tls_text


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("WRONG_VERSION_NUMBER", "WRONG_VERSION_NUMBER: the client speaks without TLS"),
        ("TLSV1_ALERT_UNKNOWN_CA", "TLSV1_ALERT_UNKNOWN_CA: the client does not trust the certificate"),
        ("NO_SHARED_CIPHER", "NO_SHARED_CIPHER"),
        (None, "[Errno 1] odd"),
    ],
)
def test_openssls_reason_comes_with_its_usual_cause(reason: str | None, text: str) -> None:
    error = ssl.SSLError(1, "odd")
    error.reason = reason  # type: ignore[assignment]
    assert tls_text(error).endswith(text.removeprefix("[Errno 1] "))
