"""Three verifiers, one verdict: ours, the JavaScript and the Go one of `examples`, over many damaged files.

Good chains, a played night among them, are damaged by seed. Much of the damage is signed again with the right
key, so that the rules behind the signature are asked too. `python -m tools.agree 10000 --seed 1`.
"""
