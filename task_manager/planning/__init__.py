"""Planning: the pure pass. A snapshot goes in, a plan comes out; the same predicates explain it."""
