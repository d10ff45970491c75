"""All kinds of writers and readers at once on one topic that is compacted, while their processes are killed."""
