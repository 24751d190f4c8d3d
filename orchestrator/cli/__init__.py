"""The command line: constructs the adapters, passes them in, turns errors into exit codes."""
