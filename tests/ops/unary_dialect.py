"""A dialect of one op from one value to another, as a plugin would register it."""


def unary_dialect(name: str, op: str) -> str:
    """Its definition in IRDL; the result's type may be another, as its sharding is part of it."""
    return f"""
    irdl.dialect @{name} {{
      irdl.operation @{op} {{
        %0 = irdl.any
        %1 = irdl.any
        irdl.operands(x: %0)
        irdl.results(y: %1)
      }}
    }}
    """
