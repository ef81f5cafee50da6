"""Side-by-side measurements: ours and a peer in the same run, as ratios, because machines are noisy."""
