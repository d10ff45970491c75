"""Tokens: checks of a JWT, like ``BrokerJwtValidator``: signature, times, issuer, audience and claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

import jwt
from jwt.exceptions import InvalidSignatureError, PyJWTError

from ....storage import InvalidConfigError, is_loopback
from ...config import GatewayConfig
from .exchange import Token, TokenError
from .keys import FileKeys, Keys, UrlKeys

URL = "sasl.oauthbearer.jwks.endpoint.url"
TRIES_MAX = 10  # keys, for a token that names none
SHOWN_MAX = 80  # characters of a token's text, which a refused login keeps for the log
_REQUIRED = ["exp", "iat"]


class JwtTokens:
    """Checks tokens. For any thread."""

    def __init__(self, config: GatewayConfig, keys: Keys) -> None:
        self._config, self._keys = config, keys
        self.start, self.stop = keys.start, keys.stop

    def check(self, token: str) -> Token:
        """Returns the content of a token. Raises TokenError unless it is valid now."""
        try:
            head = jwt.get_unverified_header(token)
        except PyJWTError:
            raise TokenError("it is not a JWT") from None
        key_id, algorithm = head.get("kid"), str(head.get("alg"))
        keys = self._keys.find(key_id, algorithm)[:TRIES_MAX]
        for each in keys:
            try:
                return self._token(self._decoded(token, each.key, algorithm))
            except InvalidSignatureError:
                continue
            except (PyJWTError, ValueError, TypeError) as error:
                raise TokenError(str(error)) from None
        if keys:
            raise TokenError("its signature is wrong")
        raise TokenError(f"no key {_shown(key_id)} is known for {_shown(algorithm)}")

    def _decoded(self, token: str, key: Any, algorithm: str) -> Mapping[str, Any]:
        config = self._config
        return jwt.decode(
            token,
            key,
            algorithms=[algorithm],  # the one that the key is for
            audience=sorted(config.sasl_oauthbearer_expected_audience) or None,
            issuer=config.sasl_oauthbearer_expected_issuer or None,
            leeway=config.sasl_oauthbearer_clock_skew_seconds,
            options={"require": _REQUIRED},
        )

    def _token(self, claims: Mapping[str, Any]) -> Token:
        config = self._config
        user, scope = (
            claims.get(config.sasl_oauthbearer_sub_claim_name),
            claims.get(config.sasl_oauthbearer_scope_claim_name, ()),
        )
        if not isinstance(user, str) or not user.strip():
            raise TokenError(f"it has no {config.sasl_oauthbearer_sub_claim_name} that names a user")
        scopes = [scope] if isinstance(scope, str) else scope
        if not isinstance(scopes, list | tuple) or not all(isinstance(each, str) and each.strip() for each in scopes):
            raise TokenError(f"its {config.sasl_oauthbearer_scope_claim_name} is not a text or a list of texts")
        return Token(user.strip(), float(claims["exp"]))


def _shown(text: str | None) -> str:
    """Returns what a token states as it is shown in the log, without most of a long text."""
    return f"{text!r:.{SHOWN_MAX}}"


def made_tokens(config: GatewayConfig) -> JwtTokens:
    """Returns the token checks for the settings. Raises InvalidConfigError for a URL or a file that cannot be used."""
    url = config.sasl_oauthbearer_jwks_endpoint_url
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return JwtTokens(config, FileKeys(URL, unquote(parts.path)))
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise InvalidConfigError(f"{URL} = {url!r}: must be like https://HOST/PATH or file:///PATH")
    if parts.scheme == "http" and not (is_loopback(parts.hostname) or config.commitlog_insecure_listeners):
        raise InvalidConfigError(
            f"{URL} = {url!r}: keys that come without TLS may be anybody's: use https, or set "
            "commitlog.insecure.listeners = true"
        )
    keys = UrlKeys(
        url,
        refresh_s=config.sasl_oauthbearer_jwks_endpoint_refresh_ms / 1000,
        retry_s=config.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms / 1000,
        retry_max_s=config.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms / 1000,
    )
    return JwtTokens(config, keys)
