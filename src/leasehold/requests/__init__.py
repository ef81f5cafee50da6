"""Check the arguments of a call and build one command of the rules from them. No store is accessed."""
