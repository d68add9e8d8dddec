"""Finds what is wrong around the daemon: ports, USB, machine, unit, journal, keys, brokers, devices.

`case` gathers what is known, `checks` is the table of everything that is looked for. It changes nothing.
"""
