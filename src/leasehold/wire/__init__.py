"""The model as JSON values: the one contract of HTTP, `--json` and MCP."""
