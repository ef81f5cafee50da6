"""The process under `leasehold run`: its signals, its lease, its end."""
