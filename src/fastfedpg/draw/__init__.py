"""Pictures: of problems, of policies, of what was learned."""
