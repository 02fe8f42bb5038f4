"""Ratios against peers and physical floors, measured in one run; see docs/performance.md."""
