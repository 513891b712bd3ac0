"""Generated from proto/headway/rpc/v1 by scripts/regenerate: never edit."""
