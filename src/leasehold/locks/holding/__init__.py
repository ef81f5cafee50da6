"""Everything behind `lock()`: a block under a lease, its renewal, and how it learns of a loss."""
