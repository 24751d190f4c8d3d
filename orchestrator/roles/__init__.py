"""Role files: reading them, and deciding which of them count.

roles = load_roles(role_sources(bundled=builtin("roles"), target=checkout, option=None))
"""

from __future__ import annotations

from orchestrator.roles.format import TOOLS, RoleFile, parse_role
from orchestrator.roles.lookup import (
    FoundRole,
    Origin,
    RoleSource,
    find_roles,
    load_roles,
    role_sources,
)

__all__ = [
    "TOOLS",
    "FoundRole",
    "Origin",
    "RoleFile",
    "RoleSource",
    "find_roles",
    "load_roles",
    "parse_role",
    "role_sources",
]
