"""Node: what ResourceManager and TaskManager are told of this machine."""
