"""What tasks reach over the network: addresses of their networks, and the firewall rules that keep them apart.

``ranges``, ``machine``, ``rules``, ``nft`` and ``iptables`` decide and write texts. ``namespace``, ``firewall`` and
``guard`` run programs and look at this machine.
"""
