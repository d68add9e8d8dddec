"""What is written from the code for those who do not read it: JSON Schemas, AsyncAPI document, test vectors.

`python -m tools.schemas` writes them anew. A test finds files that are not what the code says.
"""
