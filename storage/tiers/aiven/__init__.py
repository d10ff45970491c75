"""The layout of Aiven's plugin for tiered storage: a manifest, and a segment in chunks, compressed and encrypted."""
