"""What can be configured, where it comes from, and whether it makes sense.

settings     a table of all there is                                 (_settings, _values)
layers       options, environment, TOML, defaults, in that order     (_layers, _sources, _tokens)
config       one frozen object, checked as a whole                   (_config, _rules)
factories    the agent, by its name                                  (_factories)
check        all that could go wrong, before it does                 (_check)
"""

__all__: list[str] = []
