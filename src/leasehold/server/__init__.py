"""HTTP: decode, authorise, call one verb of the locks, answer. It decides nothing about who gets a lease."""
