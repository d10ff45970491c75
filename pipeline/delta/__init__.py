"""Topics as Delta tables or Parquet files, and the changes of Delta tables as topics."""
