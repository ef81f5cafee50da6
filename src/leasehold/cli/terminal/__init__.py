"""What people see and type at a terminal: live lines, columns, the screen of `watch`."""
