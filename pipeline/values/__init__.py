"""Keys and values as structs: serdes for JSON and Avro, with or without a schema registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .avro.serde import (
        AvroSerde as AvroSerde,
        Confluent as Confluent,
        Framing as Framing,
        SingleObject as SingleObject,
    )
    from .schema_stores import (
        SchemaFolder as SchemaFolder,
        SchemaRegistry as SchemaRegistry,
        SchemaRegistryError as SchemaRegistryError,
        SchemaStore as SchemaStore,
    )
    from .serde import JsonSerde as JsonSerde, Mode as Mode, Serde as Serde, SerializationError as SerializationError
    from .spark import decoded as decoded, encoded as encoded
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "avro.serde": ["AvroSerde", "Confluent", "Framing", "SingleObject"],
            "schema_stores": ["SchemaFolder", "SchemaRegistry", "SchemaRegistryError", "SchemaStore"],
            "serde": ["JsonSerde", "Mode", "Serde", "SerializationError"],
            "spark": ["decoded", "encoded"],
        },
    )
