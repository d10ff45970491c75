"""BrowseServer: serves the page from a thread, until it is closed."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import threading
from typing import Self

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..storage import Address, InvalidConfigError, LogManager, LogStoreError, load_kernels
from .application import application
from .browser import Browser
from .config import BrowseConfig

CONNECTIONS_MAX = 100
IDLE_S = 30  # how long a connection may wait for its next request
REQUEST_S = 10  # how long a request may take to arrive, on a new connection from its start
TAKEN_S = 60  # in this time, a client takes all of an answer that waits for it, or at least
TAKEN_BYTES = 64 << 10
HEADER_BYTES_MAX = 16 << 10  # of a request
CLOSE_S = 5  # how long answers in progress may take at the end

logger = logging.getLogger(__name__)


class BrowseError(LogStoreError):
    """The page cannot be served."""


class BrowseServer:
    """Serves the pages of a log. Raises NotALogDirError at once for a directory that has no log."""

    def __init__(self, config: BrowseConfig) -> None:
        LogManager.open(config.log_dir).close()
        self.config, self.address = config, config.address
        self._browser = Browser(config)
        self._server = uvicorn.Server(_settings(config, self._browser))
        self._thread: threading.Thread | None = None

    def start(self) -> str:
        """Listens; returns the URL. Raises BrowseError if the address cannot be listened on."""
        host, port = self.config.address
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listening = socket.create_server((host, port), family=family)
        except OSError as error:
            what = os.strerror(error.errno) if error.errno else str(error)
            raise BrowseError(f"cannot listen on {self.address}: {what}; choose another --listen") from None
        self.address = Address(host, listening.getsockname()[1])
        run = self._server.run
        self._thread = threading.Thread(target=run, args=([listening],), name="browse", daemon=True)
        self._thread.start()
        threading.Thread(target=load_kernels, name="browse-kernels", daemon=True).start()  # takes a second
        logger.info("%s: the page of %s, %s", self.url, self.config.log_dir, _who(self.config))
        return self.url

    @property
    def url(self) -> str:
        """The URL of the first page."""
        return f"{'https' if self.config.keystore else 'http'}://{self.address}/"

    def close(self) -> None:
        """Ends the server: no page is answered after this."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(CLOSE_S + 5)
        self._browser.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Connection(H11Protocol):
    """A connection that ends if its request does not arrive, or if nobody takes the answer.

    uvicorn limits only the time from an answer to the next byte, and each connection counts as one of CONNECTIONS_MAX.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._taking = Taking(self.loop, transport)
        # Writing pauses while bytes have to wait. At 0, asyncio's TLS would pause without any, and not resume.
        transport.set_write_buffer_limits(high=1)
        self._asking: asyncio.TimerHandle | None = self.loop.call_later(REQUEST_S, transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_asking()
        elif self._asking is None:
            self._asking = self.loop.call_later(REQUEST_S, self.transport.abort)

    def _stop_asking(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._taking.begin()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._taking.end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_asking()
        self._taking.end()
        super().connection_lost(exc)


class Taking:
    """Ends a connection whose client does not take the answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport) -> None:
        self._loop, self._transport = loop, transport
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """From now on, bytes of the answer wait."""
        self._timer = self._loop.call_later(TAKEN_S, self._check, self._transport.get_write_buffer_size())

    def end(self) -> None:
        """All of them were taken."""
        if self._timer is not None:
            self._timer.cancel()

    def _check(self, waited: int) -> None:
        if self._transport.get_write_buffer_size() > waited - TAKEN_BYTES:
            self._transport.abort()
        else:
            self.begin()


def _settings(config: BrowseConfig, browser: Browser) -> uvicorn.Config:
    settings = uvicorn.Config(
        application(browser),
        access_log=False,
        log_config=None,
        lifespan="off",
        loop="asyncio",
        http=Connection,
        ws="none",
        interface="asgi3",
        proxy_headers=False,
        server_header=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=CLOSE_S,
        h11_max_incomplete_event_size=HEADER_BYTES_MAX,
        ssl_certfile=config.keystore or None,
    )
    logging.getLogger("uvicorn.access").disabled = True  # addresses of pages contain search terms
    try:
        settings.load()
    except ssl.SSLError as error:
        raise InvalidConfigError(f"{config.keystore}: {error.reason or 'not a PEM file with a private key'}") from None
    except OSError as error:
        raise InvalidConfigError(f"{config.keystore}: {error.strerror}") from None
    return settings


def _who(config: BrowseConfig) -> str:
    return "for those who have the token" if config.token else "open to everybody on this machine, without a login"
