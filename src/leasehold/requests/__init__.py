"""What a caller says, checked and made into one command of the rules. It asks no store."""
