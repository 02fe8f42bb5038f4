"""Turntree's own database: schema and connection (`database`), and one module per subject."""
