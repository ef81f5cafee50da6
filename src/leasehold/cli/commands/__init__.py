"""One file for each family of commands. Each parses nothing, calls verbs of `Locks`, and shows the outcome."""
