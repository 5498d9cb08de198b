"""Renderers: each turns finished `FileReport`s into one text. They read `warplint.finding` and nothing of the analysis.

Every renderer module is imported only when its format is asked for: jinja2 and pygments are slow to import.
"""
