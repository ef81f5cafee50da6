"""Connections and bytes: HTTP/1.1 parsing, the quick path of hot requests, TLS. It knows no verbs."""
