"""One attempt: merge, act, seal, verify, publish."""
