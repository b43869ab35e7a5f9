"""Tools for a language model that cannot hurt their owner."""
