"""The tools of a Toolbox as tools of agent frameworks; each module needs its framework."""
