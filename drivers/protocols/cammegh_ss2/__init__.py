"""The Cammegh SlingShot 2 roulette wheel, sans-IO (device document, part 1)."""
