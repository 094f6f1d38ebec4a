"""Turns a package of Python into a page of the reference: what it exports, with signatures and docstrings."""
import ast
import inspect
import os
import re
import textwrap

# The classes of which a program makes objects itself, besides data classes.
CONSTRUCTED = ("Reader", "GradScaler", "Strategy", "TrainerMixin")
COLUMNS_MAX = 80


def code_block(code):
    return f"```python\n{code}\n```\n"


def text_of(node):
    """Returns a docstring as Markdown, or nothing."""
    text = inspect.cleandoc(ast.get_docstring(node, clean=False) or "")
    return re.sub(r"([*<>])", r"\\\1", re.sub(r"(?<!\n)\n(?![\n ])", " ", text)) + "\n" if text else ""


class Package:
    """The modules of a package, by name, and the texts of their files."""

    def __init__(self, folder, name):
        self.name, self.trees, self.lines = name, {}, {}
        for file_name in sorted(os.listdir(folder)):
            if file_name.endswith(".py"):
                with open(os.path.join(folder, file_name), encoding="utf-8") as file:
                    text = file.read()
                self.trees[file_name], self.lines[file_name] = ast.parse(text), text.splitlines()

    def exported(self):
        """Yields (file, definition) of each exported name: functions, classes, errors, each in the order of the imports."""
        imports = [node for node in self.trees["__init__.py"].body if isinstance(node, ast.ImportFrom)]
        files = {name.name: f"{node.module.removeprefix(self.name + '.')}.py" for node in imports for name in node.names}
        exported = next(ast.literal_eval(node.value) for node in self.trees["__init__.py"].body
                        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__")
        found = [(files[name], node) for name in files if name in exported for node in self.trees[files[name]].body
                 if getattr(node, "name", None) == name]
        yield from sorted(found, key=lambda pair: (isinstance(pair[1], ast.ClassDef), is_error(pair[1])))

    def head(self):
        return ast.get_docstring(self.trees["__init__.py"])

    def comment(self, file, node):
        """Returns the comment behind a line, or above it."""
        line = self.lines[file][node.end_lineno - 1][node.end_col_offset:]
        if match := re.match(r"\s*# (.*)", line):
            return match[1]
        above, number = [], node.lineno - 2
        while match := re.match(r"\s*# (.*)", self.lines[file][number]):
            above.insert(0, match[1])
            number -= 1
        return " ".join(above)


def is_error(node):
    return isinstance(node, ast.ClassDef) and any(
        ast.unparse(base) in ("Error", "Exception", "Stale") for base in node.bases)


def signature(node, name=None):
    """Returns a function's signature, on several lines if it is long."""
    arguments = re.sub(r"^self(, )?", "", ast.unparse(node.args))
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"{name or node.name}({arguments}){returns}"
    if len(line) <= COLUMNS_MAX:
        return line
    parts = re.split(r", (?![^\[(]*[\])])", arguments)  # not at commas within brackets
    return f"{name or node.name}(\n    " + ",\n    ".join(parts) + f"\n){returns}"


def attributes(package, file, node):
    """Yields (name, type, meaning) of fields of a data class, and of what __init__ makes public."""
    for child in node.body:
        if isinstance(child, ast.AnnAssign):
            default = f" = {ast.unparse(child.value)}" if child.value else ""
            yield child.target.id, ast.unparse(child.annotation) + default, package.comment(file, child)
        if isinstance(child, ast.FunctionDef) and child.name == "__init__":
            for line in child.body:
                target = line.targets[0] if isinstance(line, ast.Assign) else getattr(line, "target", None)
                if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self" and not target.attr.startswith("_"):
                    kind = ast.unparse(line.annotation) if isinstance(line, ast.AnnAssign) else ""
                    yield target.attr, kind, package.comment(file, line)


def table(rows):
    cells = [(f"`{name}`", f"`{kind}`" if kind else "", meaning) for name, kind, meaning in rows]
    lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in cells]
    return "| attribute | type and default | meaning |\n|---|---|---|\n" + "".join(f"| {line} |\n" for line in lines)


def inherited(package, node):
    """Yields what a class has from bases in this package that are not exported, and does not define itself."""
    own = {getattr(child, "name", None) for child in node.body}
    shown = {each.name for _, each in package.exported()}
    bases = {ast.unparse(base) for base in node.bases} - shown
    for tree in package.trees.values():
        for base in tree.body:
            if isinstance(base, ast.ClassDef) and base.name in bases:
                yield from (child for child in base.body if getattr(child, "name", None) not in own)


def class_text(package, file, node):
    parts = [text_of(node)]
    if rows := list(attributes(package, file, node)):
        parts.append(table(rows))
    for child in [*node.body, *inherited(package, node)]:
        if not isinstance(child, ast.FunctionDef) or child.name.startswith("_"):
            continue
        is_property = any("property" in ast.unparse(decorator) for decorator in child.decorator_list)
        shown = f"{child.name}: {ast.unparse(child.returns)}" if is_property else signature(child)
        parts.append(f"### {node.name}.{child.name}\n\n{code_block(shown)}\n{text_of(child)}")
    return "\n".join(part for part in parts if part)


def page(package):
    head = re.sub(r"(?m)(?:^    .*\n|^\n(?=    ))+", lambda match: "\n" + code_block(textwrap.dedent(match[0]).strip("\n")),
                  package.head() + "\n")
    parts = [f"# The Python package {package.name}\n\n{head}"]
    for file, node in package.exported():
        parts.append(f"## {node.name}\n")
        if isinstance(node, ast.FunctionDef):
            parts.append(f"{code_block(signature(node))}\n{text_of(node)}")
            continue
        if is_error(node):
            parts.append(f"An exception; its bases are {', '.join(f'`{base.id}`' for base in node.bases)}.\n")
        elif init := next((child for child in node.body if isinstance(child, ast.FunctionDef) and child.name == "__init__"), None):
            if node.name in CONSTRUCTED:
                parts.append(code_block(signature(init, node.name).removesuffix(" -> None")))
        parts.append(class_text(package, file, node))
    return "\n".join(parts)
