"""What an agent can do: one module for each tool, found through `orchestrator.tools.registry`.

This package file imports nothing on purpose: the process that searches for `Grep` imports
`orchestrator.tools.search` and must start at once.
"""
