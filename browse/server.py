"""BrowseServer: serves the page from a thread, until it is closed."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import threading
from typing import Self

import uvicorn

from ..storage import Address, InvalidConfigError, LogManager, LogStoreError, load_kernels
from .application import application
from .browser import Browser
from .config import BrowseConfig

CONNECTIONS_MAX = 100
IDLE_S = 30  # how long a connection may wait for its next request
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


def _settings(config: BrowseConfig, browser: Browser) -> uvicorn.Config:
    settings = uvicorn.Config(
        application(browser),
        access_log=False,
        log_config=None,
        lifespan="off",
        loop="asyncio",
        http="h11",
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
