"""Engine: the one writer of queue and attempts. Events come in, changes and orders go out."""
