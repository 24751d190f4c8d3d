"""The engine: decide, perform, record, until nothing is left to do."""
