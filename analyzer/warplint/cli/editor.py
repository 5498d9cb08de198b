"""`warplint lsp` and `warplint completion`: what editors and shells start."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem


@click.command("lsp", short_help="Serve an editor (language server protocol).")
def language_server() -> int:
    """Serve an editor on standard input and output (language server protocol).

    Findings with related places while you type, who executes a line on hover, a quick fix that suppresses. Settings
    are those of warplint.toml or pyproject.toml above each file. Needs the extra: pip install 'warplint[lsp]'
    """
    try:
        from warplint.lsp import server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise click.UsageError("the language server needs pygls: pip install 'warplint[lsp]'") from error
    server().start_io()
    return 0


@click.command("completion", short_help="Print a completion script for a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print a script that makes SHELL complete warplint's commands, options and rules.

    \b
        eval "$(warplint completion bash)"          # in ~/.bashrc
        eval "$(warplint completion zsh)"           # in ~/.zshrc
        warplint completion fish > ~/.config/fish/completions/warplint.fish
    """
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None
    script = made(context.find_root().command, {}, "warplint", "_WARPLINT_COMPLETE")
    click.echo(script.source_template % script.source_vars())
    return 0


def rule_names(context: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Rules and families that begin as typed; in a list with commas, its last name."""
    from warplint.registry import RuleError, rules

    before, comma, typed = incomplete.rpartition(",")
    try:
        found = rules()
    except RuleError:
        return []
    names = sorted({rule.slug for rule in found} | {rule.family for rule in found})
    return [CompletionItem(f"{before}{comma}{name}") for name in names if name.startswith(typed)]
