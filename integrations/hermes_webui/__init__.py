"""In the making."""

__all__: list[str] = []
