"""The loop that drives a model with tools until it hands in a product that is accepted."""
