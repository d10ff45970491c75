"""Keys and values as structs: serdes for JSON and Avro, with or without a schema registry."""
