"""The parts of Fetch and ListOffsets that ask a tier."""
