"""Set up and take away what makes editors and git ask for locks. What others have written there is left as it is."""
