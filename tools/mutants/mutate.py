"""Print the mutants of a module, one JSON object a line; run with the Python of cosmic-ray."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Final

from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.ast.ast_query import ASTQuery
from cosmic_ray.mutating import mutate_code

LEFT_OUT: Final = re.compile(
    # Operators that repeat what the others show. Among them are those of ``|``, which occurs in
    # annotations, and these are not evaluated.
    "core/ReplaceBinaryOperator_(?!Add_Sub$|Sub_Add$|Mul_FloorDiv$|FloorDiv_Mul$|Mod_Mul$)"
    "|core/ReplaceComparisonOperator_(?!Lt_LtE$|LtE_Lt$|Gt_GtE$|GtE_Gt$|Lt_GtE$|GtE_Lt$|Gt_LtE$"
    "|LtE_Gt$|Eq_NotEq$|NotEq_Eq$|Is_IsNot$|IsNot_Is$|In_NotIn$|NotIn_In$)"
    "|core/ReplaceUnaryOperator_USub_"  # of -1, which becomes 1, -2 and 0 without it
    "|core/RemoveDecorator"
    "|core/AddNot"  # mostly the same as the opposite comparison
)


def main(path: Path) -> None:
    """Print definition and source of every mutant of the module at ``path``."""
    source = path.read_text("utf-8")
    lines = source.splitlines()
    nodes = list(ast_nodes(get_ast(source)))
    for name in sorted(plugins.operator_names()):
        operator_class = plugins.get_operator(name)
        if LEFT_OUT.match(name) or operator_class.arguments():
            continue
        operator = operator_class()
        places = [node for node in nodes for _ in operator.mutation_positions(node)]
        for occurrence, node in enumerate(places):
            if lines[node.start_pos[0] - 1].lstrip().startswith("@dataclass"):
                continue  # mypy checks whether a field may be assigned
            mutated = mutate_code(source, operator, occurrence)
            definition = ASTQuery(node).get_definition_name() or ""
            print(json.dumps({"definition": definition, "source": mutated}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
