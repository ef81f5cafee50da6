"""The terminal: live lines, columns, the screen of `watch`."""
