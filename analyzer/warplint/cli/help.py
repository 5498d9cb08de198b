"""`--help` of commands with many options: grouped by what a user wants to decide."""

from __future__ import annotations

import click

SECTIONS: dict[str, tuple[str, ...]] = {
    "Which findings": (
        "select",
        "ignore",
        "level",
        "expect",
        "no_execute",
        "baseline",
        "no_baseline",
        "diff",
        "show_suppressed",
    ),
    "When it fails": ("fail_on", "exit_zero", "strict"),
    "Reports": ("form", "outputs", "quiet", "color", "sarif_category", "root", "path_map"),
    "How kernels are launched": ("arch", "block", "cluster", "smem", "registers"),
    "How sources are read": (
        "defines",
        "include",
        "dialects",
        "fragment",
        "max_bytes",
        "stdin_name",
        "config_path",
        "no_config",
    ),
    "Many files": ("jobs", "no_cache", "cache_folder", "shard", "dask", "watch"),
}
"""Parameters by name, in the order of the page; others stand first, under `Options`."""


class Sectioned(click.Command):
    """A command whose help shows its options in sections."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of each section that has any."""
        records = {
            param.name: record
            for param in self.get_params(ctx)
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)) is not None
        }
        named = {name for names in SECTIONS.values() for name in names}
        sections = {"Options": tuple(name for name in records if name and name not in named), **SECTIONS}
        for title, names in sections.items():
            if rows := [records[name] for name in names if name in records]:
                with formatter.section(title):
                    formatter.write_dl(rows)
