"""Growth: a command or webhook is told what the queue lacks and which machines could leave."""
