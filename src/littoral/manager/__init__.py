"""The long-running service that keeps models fresh: jobs, triggers, samples and model versions in one folder."""
