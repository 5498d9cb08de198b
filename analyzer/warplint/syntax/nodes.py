"""Names for the numbers of the grammar's fields and node kinds that more than one module looks at."""

from __future__ import annotations

from warplint.syntax.grammar import LANGUAGE, field, kind, kinds

MAX_DEPTH = 100
"""Levels of statements and expressions, one inside the other, that are built; what is deeper becomes a `Gap` or
`Unparsed`. Real kernels stay below 30; a level takes up to four of Python's frames."""
MAX_CHAIN = 200
"""Terms of one sum or product that are built: it leans left, so others may recurse once per term."""

F_ALTERNATIVE, F_ARGUMENT, F_ARGUMENTS = field("alternative"), field("argument"), field("arguments")
F_BODY, F_CONDITION, F_CONSEQUENCE = field("body"), field("condition"), field("consequence")
F_DECLARATOR, F_DEFAULT, F_FIELD, F_FUNCTION = (field(n) for n in ("declarator", "default_value", "field", "function"))
F_INDICES, F_LEFT, F_NAME, F_OPERATOR, F_RIGHT = (field(n) for n in ("indices", "left", "name", "operator", "right"))
F_SCOPE, F_SIZE, F_TYPE, F_VALUE, F_PARAMETERS = (field(n) for n in ("scope", "size", "type", "value", "parameters"))
F_ASSEMBLY, F_OUTPUTS, F_INPUTS = field("assembly_code"), field("output_operands"), field("input_operands")
F_CONSTRAINT, F_SYMBOL = field("constraint"), field("symbol")

IDENTIFIERS = kinds("identifier", "type_identifier", "field_identifier", "namespace_identifier", "this")
PARENTHESIZED = kinds("parenthesized_expression")
QUALIFIED = kinds("qualified_identifier")
TEMPLATED = kinds("template_function", "template_type", "template_method")
CALL = kinds("call_expression")
BINARY = kinds("binary_expression")
COMMENT = kinds("comment")
POINTER_DECLARATORS = kinds("pointer_declarator", "abstract_pointer_declarator")
REFERENCE_DECLARATORS = kinds("reference_declarator", "abstract_reference_declarator")
ARRAY_DECLARATORS = kinds("array_declarator", "abstract_array_declarator")
FUNCTION_DECLARATORS = kinds("function_declarator", "abstract_function_declarator")
PARENTHESIZED_DECLARATORS = kinds("parenthesized_declarator", "abstract_parenthesized_declarator")
INIT_DECLARATOR = kinds("init_declarator")
K_TYPE_DESCRIPTOR = kind("type_descriptor")
K_PRIMITIVE, K_SIZED = kind("primitive_type"), kind("sized_type_specifier")
K_INIT_LIST, K_COMPOUND, K_STRING, K_RAW = (
    kind(n) for n in ("initializer_list", "compound_statement", "string_literal", "raw_string_literal")
)
K_LAMBDA_DECLARATOR, K_DEPENDENT = kind("lambda_declarator"), kind("dependent_name")
PARAMETERS = kinds("parameter_declaration", "optional_parameter_declaration", "variadic_parameter_declaration")
DECLARATION = kinds("declaration")
EXPRESSION_STATEMENT = kinds("expression_statement")
DECLARATORS = (
    INIT_DECLARATOR
    | IDENTIFIERS
    | POINTER_DECLARATORS
    | REFERENCE_DECLARATORS
    | FUNCTION_DECLARATORS
    | kinds("array_declarator", "parenthesized_declarator", "attributed_declarator", "structured_binding_declarator")
)
K_EQUALS = LANGUAGE.id_for_node_kind("=", False)
K_COMMA = LANGUAGE.id_for_node_kind(",", False)
K_ARGUMENTS = kind("argument_list")
RECORDS = kinds("struct_specifier", "class_specifier", "union_specifier")
K_BITS = kind("bitfield_clause")
COMPOUND_LITERAL = kinds("compound_literal_expression")
