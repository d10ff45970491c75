"""Avro values: Java Avro's schema resolution, defaults and types, on fastavro."""
