"""An issuer of tokens: its keys, as a JWKS, and tokens that are right but for what is given."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

AUDIENCE, ISSUER = "kafka", "https://issuer.example"


class Issuer:
    """Signs with a key of RSA, ``r``, and one of a curve, ``e``."""

    def __init__(self) -> None:
        self.rsa = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.curve = ec.generate_private_key(ec.SECP256R1())

    def jwks(self) -> str:
        keys = [
            {**json.loads(RSAAlgorithm.to_jwk(self.rsa.public_key())), "kid": "r", "use": "sig"},
            {**json.loads(ECAlgorithm.to_jwk(self.curve.public_key())), "kid": "e"},
            {"kty": "oct", "kid": "o", "k": "c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0IHNlY3JldA"},
        ]
        return json.dumps({"keys": keys})

    def write(self, path: Path) -> str:
        """Writes the keys; returns the URL of the file."""
        path.write_text(self.jwks())
        return path.as_uri()

    def token(self, user: str = "alice", *, lasts_s: float = 3600, key_id: str | None = "r", **more: Any) -> str:
        now_s = time.time()
        claims = {"sub": user, "iat": now_s - 1, "exp": now_s + lasts_s, "aud": AUDIENCE, "iss": ISSUER, "scope": "k"}
        given = {name: value for name, value in {**claims, **more}.items() if value is not None}
        headers = {} if key_id is None else {"kid": key_id}
        if key_id == "e":
            return jwt.encode(given, self.curve, algorithm="ES256", headers=headers)
        return jwt.encode(given, self.rsa, algorithm="RS256", headers=headers)


def settings(url: str, protocol: str = "SASL_PLAINTEXT") -> dict[str, Any]:
    """The settings of a gateway whose clients log in by tokens."""
    return {
        "listeners": f"{protocol}://127.0.0.1:0",
        "sasl_enabled_mechanisms": "OAUTHBEARER",
        "sasl_oauthbearer_jwks_endpoint_url": url,
        "sasl_oauthbearer_expected_audience": AUDIENCE,
        "sasl_oauthbearer_expected_issuer": ISSUER,
        "connection_failed_authentication_delay_ms": 10,
    }
