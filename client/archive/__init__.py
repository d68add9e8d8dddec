"""The operator's data base: every signed record of a site, once, in PostgreSQL or SQLite (docs/archive.md).

    message --Intake--> Entry --Store--> rows, in one transaction with the link of the chain
                                     |--> Keeper: what is missing is asked for by replay

Each record is verified by itself, so several instances can share the stream and take records in any order;
whether a chain is whole is asked of the data base.
"""
