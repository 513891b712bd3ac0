"""Domain objects: frozen, slotted, without I/O."""
