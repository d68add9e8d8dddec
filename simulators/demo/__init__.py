"""A roulette table at work, for newcomers: `dollyd demo`, `python -m dollyd.simulators.demo`."""
