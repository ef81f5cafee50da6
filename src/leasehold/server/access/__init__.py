"""Access to a server: keys, sessions, origins, roles, rates and shares."""
