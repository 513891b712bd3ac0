"""Planning: the scheduling pass. A snapshot goes in, a plan comes out. The predicates that decide also explain."""
