"""Learning that goes on: streams of samples that change while a model serves."""
