"""Gates: real commands on real trees, and the evidence they leave."""
