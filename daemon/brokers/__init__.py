"""What a broker must keep and refuse: its address, its access list, its certificates, and the proof."""
