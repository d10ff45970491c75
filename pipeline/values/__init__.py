"""Keys and values as structs: JSON and Avro, with or without a schema registry."""
