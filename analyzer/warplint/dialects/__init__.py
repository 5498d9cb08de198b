"""From spellings to operations: inline assembly by what it does (`asm`), calls by name (`names`)."""
