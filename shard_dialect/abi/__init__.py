"""The interface of compiled code and its callers: element types, boundaries, collectives."""
