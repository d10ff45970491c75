"""Accepting: the sockets that a gateway listens on, and the terms under which it accepts connections there."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from ..storage import Address, InvalidConfigError
from .config import GatewayConfig
from .context import Context
from .listeners import Listener
from .live_settings import Change, Later, change_admission, for_listener
from .network.acceptor import Acceptor, listening
from .network.limits.admission import Admission
from .network.limits.clients import Terms
from .network.processor import Processor
from .security.listener import made_tls

logger = logging.getLogger(__name__)


class Accepting:
    """The listening sockets of one gateway."""

    def __init__(self, config: GatewayConfig) -> None:
        """Binds nothing yet. ``config``: the settings at the start."""
        self._config = config
        self._bound: dict[Listener, socket.socket] = {}

    def bind(self, starting: ExitStack) -> Mapping[str, Address]:
        """Listens, and returns the address of each listener by its name; ``starting`` closes the sockets.

        Raises OSError if an address is taken.
        """
        for each in self._config.all_listeners:
            self._bound[each] = self._listening(each, starting)
        return {
            each.name: Address(each.address.host, listener.getsockname()[1]) for each, listener in self._bound.items()
        }

    def _listening(self, listener: Listener, starting: ExitStack) -> socket.socket:
        bound = listening(
            *listener.address,
            backlog=self._config.socket_listen_backlog_size,
            send_bytes=self._config.socket_send_buffer_bytes,
            receive_bytes=self._config.socket_receive_buffer_bytes,
        )
        starting.callback(bound.close)
        return bound

    def start(
        self, starting: ExitStack, context: Context, processors: Sequence[Processor], admission: Admission
    ) -> None:
        """Accepts connections from now on, each under the settings in force when it comes."""
        settings = context.settings
        acceptors = {
            each: Acceptor(listener, self._terms(each, settings.config, settings.own), processors, admission)
            for each, listener in self._bound.items()
        }
        for acceptor in acceptors.values():
            acceptor.start()
            starting.callback(acceptor.stop)

        def apply(change: Change) -> Later:
            context.partitions.close_topics(change.topics)  # they are opened with the new settings
            for listener, acceptor in acceptors.items():
                acceptor.terms = self._terms(listener, change.config, change.own, acceptor.terms.tls)
            return change_admission(admission, change.config)

        settings.listen(apply)

    def _terms(
        self, listener: Listener, config: GatewayConfig, own: Mapping[str, str], tls: ssl.SSLContext | None = None
    ) -> Terms:
        """Returns the terms of a listener. ``own``: settings of this node.

        ``tls``: used if these settings have no valid certificate. Raises InvalidConfigError if there is none then.
        """
        if listener.has_tls:
            try:
                tls = made_tls(for_listener(config, own, listener))
            except InvalidConfigError as error:
                if tls is None:  # with others, this listener might let in clients that it must refuse
                    raise
                logger.error("listener %s keeps the certificates that it has: %s", listener.name, error)
        login_bytes_max = self._config.sasl_server_max_receive_size if listener.has_sasl else None
        return Terms(listener.name, tls=tls, login_bytes_max=login_bytes_max)
