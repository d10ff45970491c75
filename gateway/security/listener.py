"""Security: what the listeners require of their clients."""

from __future__ import annotations

import shlex
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from ...storage import InvalidConfigError, needs_extra
from ..config import GatewayConfig
from .oauth.exchange import Tokens
from .plain import RememberedPasswords
from .rule_store import RuleStore
from .session import ANONYMOUS, OAUTHBEARER, Session
from .tls.certificates import principal_of, tls_context
from .tls.principal_rules import PrincipalRules
from .users import UsersFile


@dataclass(frozen=True)
class Security:
    """TLS, logins, and rules."""

    users: UsersFile | None  # the users file for listeners with SASL; None: no user has a password
    mechanisms: Sequence[str]
    rules: RuleStore | None  # None: everyone may do everything
    login_lasts_s: float = inf
    remembered: RememberedPasswords = field(default_factory=RememberedPasswords)
    tokens: Tokens | None = None  # checks the tokens of OAUTHBEARER; None: not enabled
    principal_rules: PrincipalRules = field(default_factory=lambda: PrincipalRules("DEFAULT"))

    def session(self, certificate: Mapping[str, Any] | None, host: str, *, logs_in: bool) -> Session:
        """Returns the session of a new connection.

        ``certificate``: the client's, None if it showed none. ``host``: its address. ``logs_in``: whether it must log
        in. Raises LoginError if no rule names the user of the certificate.
        """
        if logs_in:
            find = None if self.users is None else self.users.find
            lasts_s, tokens = self.login_lasts_s, self.tokens
            return Session(None, self.mechanisms, find, self.remembered, tokens=tokens, host=host, lasts_s=lasts_s)
        subject = principal_of(certificate)
        return Session(ANONYMOUS if subject is None else f"User:{self.principal_rules.name(subject)}", host=host)

    def start(self) -> None:
        """Reads the keys for tokens, and starts to follow their changes."""
        if self.tokens is not None:
            self.tokens.start()

    def stop(self) -> None:
        """Stops following the keys."""
        if self.tokens is not None:
            self.tokens.stop()


# Settings that clients may change for one listener, with ``listener.name.<listener>.`` in front of the name.
LISTENER_KEYS = ("ssl.keystore.location", "ssl.truststore.location", "ssl.client.auth", "ssl.enabled.protocols")
_PREFIX = "listener.name."


def listener_setting(name: str) -> tuple[str, str] | None:
    """Returns the listener, in lower case, and the setting of ``listener.name.<listener>.<setting>``; else None."""
    listener, _, setting = name.removeprefix(_PREFIX).partition(".")
    return (listener, setting) if name.startswith(_PREFIX) and listener and setting else None


def own_tls_settings(settings: Mapping[str, str], listener: str) -> dict[str, str]:
    """Returns the ``settings`` of one listener, by their names without the listener's."""
    prefix = f"{_PREFIX}{listener.lower()}."
    found = {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}
    return {name: value for name, value in found.items() if name in LISTENER_KEYS}


def made_tls(config: GatewayConfig) -> ssl.SSLContext:
    """Returns the TLS contexts of listeners with these settings.

    Raises InvalidConfigError for files that cannot be used.
    """
    return tls_context(
        keystore=config.ssl_keystore_location,
        key_password=config.ssl_key_password,
        truststore=config.ssl_truststore_location,
        client_auth=config.ssl_client_auth,
        versions=sorted(config.ssl_enabled_protocols),
    )


def made_security(config: GatewayConfig) -> Security:
    """Returns the security of the settings. Raises InvalidConfigError and OSError for files that cannot be used."""
    users = tokens = None
    if any(each.has_sasl for each in config.all_listeners):
        if config.sasl_enabled_mechanisms - {OAUTHBEARER}:
            users = UsersFile(config.commitlog_users_file)
            _check_users(users)
        if OAUTHBEARER in config.sasl_enabled_mechanisms:
            with needs_extra("sasl.enabled.mechanisms = OAUTHBEARER"):
                from .oauth.tokens import made_tokens  # noqa: PLC0415  needs the extra oauth

                tokens = made_tokens(config)
    rules = None
    if config.commitlog_rules_file or config.commitlog_acls_file:
        rules = RuleStore(
            config.commitlog_rules_file,
            config.commitlog_acls_file,
            (each.strip() for each in config.super_users.split(";") if each.strip()),
            allows_without_acls=config.allow_everyone_if_no_acl_found,
        )
    lasts_s = config.connections_max_reauth_ms / 1000 or inf
    return Security(
        users,
        sorted(config.sasl_enabled_mechanisms),
        rules,
        lasts_s,
        tokens=tokens,
        principal_rules=PrincipalRules(config.ssl_principal_mapping_rules),
    )


def _check_users(users: UsersFile) -> None:
    """Reads the users file, so that a mistake is reported at the start."""
    try:
        users.read()
    except FileNotFoundError:
        raise InvalidConfigError(
            f"commitlog.users.file = {users.path!r}: there is no such file; add the first user with "
            f"commitlog users --file {shlex.quote(users.path)} --add USER"
        ) from None
