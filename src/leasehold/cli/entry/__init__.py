"""From the words of a command line to a verb and its values: parsing, the table of commands, help."""
