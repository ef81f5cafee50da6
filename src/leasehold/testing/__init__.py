"""What people who write rules, stores or surfaces test them with. Published; the package itself never imports it."""
