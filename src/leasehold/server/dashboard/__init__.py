"""The live page at `/`: its files, signing in, and the views that only it needs. It decides nothing about leases."""
