"""Connections and bytes: HTTP/1.1 parsing, the quick parser, TLS."""
