"""Security: what the listeners require of their clients."""

from __future__ import annotations

import shlex
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from ...storage import InvalidConfigError
from ..config import GatewayConfig
from .certificates import principal_of, tls_context
from .plain import RememberedPasswords
from .rules import RulesFile
from .session import ANONYMOUS, Session
from .users import UsersFile


@dataclass(frozen=True)
class Security:
    """TLS, logins, and rules."""

    tls: ssl.SSLContext | None  # of listeners with SSL; None: there are none
    users: UsersFile | None  # for listeners with SASL; None: there are none
    mechanisms: Sequence[str]
    rules: RulesFile | None  # None: everyone may do everything
    login_lasts_s: float = inf
    remembered: RememberedPasswords = field(default_factory=RememberedPasswords)

    def session(self, certificate: Mapping[str, Any] | None, *, logs_in: bool) -> Session:
        """Returns the session of a new connection.

        ``certificate``: the client's, None if it showed none. ``logs_in``: whether the client must log in.
        """
        if logs_in and self.users is not None:
            return Session(None, self.mechanisms, self.users.find, self.remembered, lasts_s=self.login_lasts_s)
        return Session(principal_of(certificate) or ANONYMOUS)


def made_security(config: GatewayConfig) -> Security:
    """Returns the security of the settings. Raises InvalidConfigError and OSError for files that cannot be used."""
    tls = users = None
    if any(each.has_tls for each in config.all_listeners):
        tls = tls_context(
            keystore=config.ssl_keystore_location,
            key_password=config.ssl_key_password,
            truststore=config.ssl_truststore_location,
            client_auth=config.ssl_client_auth,
            versions=sorted(config.ssl_enabled_protocols),
        )
    if any(each.has_sasl for each in config.all_listeners):
        users = UsersFile(config.commitlog_users_file)
        _check_users(users)
    rules = None
    if config.commitlog_rules_file:
        rules = RulesFile(config.commitlog_rules_file, filter(None, config.super_users.split(";")))
    lasts_s = config.connections_max_reauth_ms / 1000 or inf
    return Security(tls, users, sorted(config.sasl_enabled_mechanisms), rules, lasts_s)


def _check_users(users: UsersFile) -> None:
    """Reads the file, so that a mistake is reported at the start."""
    try:
        users.read()
    except FileNotFoundError:
        raise InvalidConfigError(
            f"commitlog.users.file = {users.path!r}: there is no such file; add the first user with "
            f"commitlog users --file {shlex.quote(users.path)} --add USER"
        ) from None
