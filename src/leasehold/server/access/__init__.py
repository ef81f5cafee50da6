"""Who may do what on a server: keys, roles, rates, origins."""
