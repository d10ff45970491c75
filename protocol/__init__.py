"""Kafka's protocol: the bytes of requests and answers, for both ends of a connection. It knows no sockets.

``apis`` is the table of requests and versions. ``bodies`` reads and writes them with the library kio, which no other
module imports; ``old`` has the versions that kio lacks. Produce and Fetch carry all records, so for speed the gateway
reads and writes them without kio, by ``produce`` and ``fetch``. ``errors`` has Kafka's codes for the errors of
``storage``. ``kafka_0_7`` is the protocol of Kafka 0.7; import its names from that module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .apis import APIS as APIS, Api as Api, ApiKey as ApiKey
    from .bodies import (
        ErrorCode as ErrorCode,
        read_answer as read_answer,
        read_request as read_request,
        write_answer as write_answer,
        write_request as write_request,
    )
    from .errors import (
        RequestError as RequestError,
        code_of as code_of,
        is_fault as is_fault,
        message_of as message_of,
    )
    from .fetch import (
        Fetched as Fetched,
        FetchPartition as FetchPartition,
        FetchRequest as FetchRequest,
        encode_fetched as encode_fetched,
        parse_fetch as parse_fetch,
    )
    from .headers import (
        RequestHeader as RequestHeader,
        answer_header as answer_header,
        answer_header_bytes as answer_header_bytes,
        parse_header as parse_header,
        request_header as request_header,
    )
    from .produce import (
        Produced as Produced,
        ProducePartition as ProducePartition,
        ProduceRequest as ProduceRequest,
        encode_produced as encode_produced,
        parse_produce as parse_produce,
    )
    from .reading import MalformedRequestError as MalformedRequestError, TooManyEntriesError as TooManyEntriesError
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "apis": ["APIS", "Api", "ApiKey"],
            "bodies": ["ErrorCode", "read_answer", "read_request", "write_answer", "write_request"],
            "errors": ["RequestError", "code_of", "is_fault", "message_of"],
            "fetch": ["FetchPartition", "FetchRequest", "Fetched", "encode_fetched", "parse_fetch"],
            "headers": ["RequestHeader", "answer_header", "answer_header_bytes", "request_header", "parse_header"],
            "produce": ["ProducePartition", "ProduceRequest", "Produced", "encode_produced", "parse_produce"],
            "reading": ["MalformedRequestError", "TooManyEntriesError"],
        },
    )
