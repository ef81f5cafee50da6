"""Routes, requests and answers of HTTP. Requests are parsed, dispatched to a verb, and its outcome is encoded."""
