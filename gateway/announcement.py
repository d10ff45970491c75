"""The lines about itself that a gateway logs when it begins to serve."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

from ..storage import counted, is_loopback
from .config import GatewayConfig
from .context import Context
from .listeners import Listener
from .security.listener import Security


def announcement(context: Context, security: Security) -> Iterator[str]:
    """Yields a line about the node, and one about each listener: its address, and who may connect."""
    config = context.config
    node = f"node {config.node_id} of the cluster {context.cluster_id}"
    yield f"spark-commitlog {version('spark-commitlog')} serves {context.log_dir} as {node}"
    for each in config.all_listeners:
        advertised = config.advertised.get(each.name)
        yield (
            f"listening on {each.name}://{context.listening[each.name]}"
            f"{f', advertised as {advertised}' if advertised else ''}: open to {_clients(each, config, security)}"
        )


def _clients(listener: Listener, config: GatewayConfig, security: Security) -> str:
    """Returns who may connect, and how they prove who they are."""
    if listener.has_sasl:
        users = "everybody with a token"
        if security.users is not None:
            users = f"{counted(len(security.users.read()), 'user')} of {security.users.path}"
        return f"{users}, by {', '.join(security.mechanisms)}"
    if listener.has_tls and config.ssl_client_auth == "required":
        return f"everybody with a certificate of an authority in {config.ssl_truststore_location}"
    where = " on this machine" if is_loopback(listener.address.host) else ""
    return f"everybody{where}, without a login"
