"""Engine: the only writer of the queue and of attempts. Events come in; changes and orders go out."""
