"""What git's hooks ask: may what is about to be committed, pushed or received be changed? Git itself is the source."""
