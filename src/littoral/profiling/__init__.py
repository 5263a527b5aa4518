"""Measure devices, tasks and apps under stress, and learn from it what training will take and what it will disturb."""
