"""Test tools for authors of rules, stores and surfaces. Published; the package itself never imports them."""
