"""Torture of our clients beside real ones."""
