"""Set up and remove the integrations with editors and git. Other contents of their files stay as they are."""
