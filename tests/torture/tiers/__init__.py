"""Tiers under faults: :mod:`.faults` is a store on a bad day, :mod:`.world` a log with its twin, :mod:`.suite` both."""
