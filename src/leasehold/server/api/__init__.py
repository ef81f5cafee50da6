"""Routes, requests and answers of HTTP. It decodes, calls one verb, and encodes the outcome."""
