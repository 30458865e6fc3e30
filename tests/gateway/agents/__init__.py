"""The agents that come with the gateway."""
