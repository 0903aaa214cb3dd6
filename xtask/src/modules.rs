//! The modules of a crate: what each defines, imports and names.
//!
//! Reads just enough Rust to follow a path from the module that writes it to the file that defines
//! the item: `mod` lines, items, `use` declarations with their lists, globs and new names, and the
//! paths in code. Code under `#[cfg(test)]` is left out. It does not expand macros, so an item
//! that a macro makes belongs to the module that a path names.

use crate::tokens::{Kind, Token, tokens};
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// Keywords that begin a named item.
const ITEMS: [&str; 9] =
    ["fn", "struct", "enum", "union", "trait", "type", "const", "static", "macro_rules"];

/// Index of a module in its crate.
pub type ModuleIndex = usize;

/// A `use` of one name, or of all names of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// Segments as written, `self` at the end left out.
    pub path: Vec<String>,
    /// The name it gets here; nothing for a glob and for `as _`.
    pub name: Option<String>,
    /// All names of the module that `path` leads to.
    pub glob: bool,
    /// Others may take the name from here.
    pub public: bool,
    /// Line, from 1.
    pub line: usize,
}

/// A path in code, or a single name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// Segments as written.
    pub path: Vec<String>,
    /// Line, from 1.
    pub line: usize,
}

/// One module.
#[derive(Debug, Default)]
pub struct Module {
    /// Path of the file that holds it.
    pub file: String,
    /// The module around it; nothing for the root.
    pub parent: Option<ModuleIndex>,
    /// Modules directly inside, by name.
    pub children: BTreeMap<String, ModuleIndex>,
    /// Names of items defined here.
    pub items: BTreeSet<String>,
    /// Every `use`, also inside functions.
    pub imports: Vec<Import>,
    /// Every other path and name.
    pub mentions: Vec<Mention>,
}

/// All modules of a crate; the root is the first.
#[derive(Debug, Default)]
pub struct Crate {
    /// The modules, parents before children.
    pub modules: Vec<Module>,
}

/// Where a path leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// To a module itself.
    Module(ModuleIndex),
    /// To an item of a module.
    Item(ModuleIndex),
}

/// Re-exports followed on the way to one item; longer chains are taken for endless ones.
const HOPS_MAX: usize = 16;

impl Crate {
    /// Reads the crate whose root file is `root`, such as `crates/x/src/lib.rs`.
    pub fn read(tree: &Tree, root: &str) -> Self {
        let mut this = Self::default();
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
        this.read_file(tree, root, &format!("{folder}/"), None);
        this
    }

    /// Reads a file as a module; modules of its own lie in `folder`.
    fn read_file(
        &mut self,
        tree: &Tree,
        file: &str,
        folder: &str,
        parent: Option<ModuleIndex>,
    ) -> ModuleIndex {
        let index = self.modules.len();
        self.modules.push(Module { file: file.to_owned(), parent, ..Module::default() });
        let tokens = tokens(tree.text(file).unwrap_or_default());
        let mut reader = Reader { tree, krate: self, tokens: &tokens, at: 0 };
        reader.module(index, folder);
        index
    }

    /// Follows `path`, written in module `from`, to where it leads within this crate.
    pub fn resolve(&self, from: ModuleIndex, path: &[String]) -> Option<Target> {
        self.follow(from, path, HOPS_MAX)
    }

    fn follow(&self, from: ModuleIndex, path: &[String], hops: usize) -> Option<Target> {
        let hops = hops.checked_sub(1)?;
        let (first, mut rest) = path.split_first()?;
        let mut here = match first.as_str() {
            "crate" => 0,
            "self" => from,
            "super" => self.modules[from].parent?,
            name => match self.name(from, name, rest.is_empty(), hops)? {
                Target::Module(module) => module,
                item => return Some(item),
            },
        };
        while let Some((name, after)) = rest.split_first() {
            rest = after;
            if name == "super" {
                here = self.modules[here].parent?;
                continue;
            }
            here = match self.name(here, name, rest.is_empty(), hops) {
                Some(Target::Module(module)) => module,
                Some(item) => return Some(item),
                // A macro made it, as the path names a module of this crate.
                None => return Some(Target::Item(here)),
            };
        }
        Some(Target::Module(here))
    }

    /// What `name` means in `module`; at the end of a path an item goes before a module.
    fn name(&self, module: ModuleIndex, name: &str, last: bool, hops: usize) -> Option<Target> {
        let this = &self.modules[module];
        let child = this.children.get(name).map(|child| Target::Module(*child));
        if child.is_some() && !last {
            return child;
        }
        if this.items.contains(name) {
            return Some(Target::Item(module));
        }
        let named = this.imports.iter().filter(|i| i.name.as_deref() == Some(name));
        // `use tree::tree` names the child again: the path must not come back to itself.
        let mut found = named.filter_map(|i| self.follow(module, &i.path, hops));
        if let Some(target) = found.next() {
            return Some(target);
        }
        if child.is_some() {
            return child;
        }
        this.imports.iter().filter(|i| i.glob).find_map(|import| {
            match self.follow(module, &import.path, hops)? {
                Target::Module(all) if all != module => self.name(all, name, last, hops - 1),
                _ => None,
            }
        })
    }
}

/// Reads the tokens of one file.
struct Reader<'a> {
    tree: &'a Tree,
    krate: &'a mut Crate,
    tokens: &'a [Token<'a>],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Reads up to the end of the file or the brace that closes the module.
    fn module(&mut self, index: ModuleIndex, folder: &str) {
        let mut depth = 0;
        while let Some(token) = self.tokens.get(self.at) {
            if token.is('{') {
                depth += 1;
            } else if token.is('}') {
                if depth == 0 {
                    return;
                }
                depth -= 1;
            } else if token.is('#') {
                if self.attribute() {
                    skip_item(self.tokens, &mut self.at);
                }
                continue;
            } else if let Some(word) = token.word() {
                self.word(index, folder, word, depth);
                continue;
            }
            self.at += 1;
        }
    }

    /// Reads what begins with a keyword or a name.
    fn word(&mut self, index: ModuleIndex, folder: &str, word: &'a str, depth: usize) {
        let line = self.tokens[self.at].line;
        let next = self.tokens.get(self.at + 1);
        let name = next.and_then(Token::word);
        match (word, name) {
            ("mod", Some(name)) if depth == 0 => {
                self.at += 2;
                self.child(index, folder, name);
            }
            ("use", _) => {
                let before = self.at.checked_sub(1).map(|at| self.tokens[at]);
                // `use<'a>` of a return type captures lifetimes and imports nothing.
                let captures = next.is_some_and(|t| t.is('<'));
                let public = before.is_some_and(|t| t.is(')') || t.word() == Some("pub"));
                self.at += 1;
                if !captures {
                    self.import(index, &mut Vec::new(), public);
                }
            }
            (item, Some(name)) if self.defines(item, name) => {
                if depth == 0 {
                    self.krate.modules[index].items.insert(name.to_owned());
                }
                self.at += 2;
            }
            ("macro_rules", _) if depth == 0 => {
                if let Some(name) = self.tokens.get(self.at + 2).and_then(Token::word) {
                    self.krate.modules[index].items.insert(name.to_owned());
                }
                self.at += 3;
            }
            _ => self.mention(index, line),
        }
    }

    /// Checks that `keyword`, at this place, begins the definition of `name`. The `*const T` of a
    /// pointer defines nothing, nor does `const` before `fn`.
    fn defines(&self, keyword: &str, name: &str) -> bool {
        let pointer = self.at > 0 && self.tokens[self.at - 1].is('*');
        let qualifier = ["mut", "unsafe", "extern", "async"].contains(&name);
        ITEMS.contains(&keyword) && !pointer && !qualifier && !ITEMS.contains(&name)
    }

    /// Reads a child module: `name` was read, `;` or `{` follows.
    fn child(&mut self, index: ModuleIndex, folder: &str, name: &str) {
        let inner = format!("{folder}{name}/");
        let child = if self.tokens.get(self.at).is_some_and(|t| t.is('{')) {
            let file = self.krate.modules[index].file.clone();
            let child = self.krate.modules.len();
            self.krate.modules.push(Module { file, parent: Some(index), ..Module::default() });
            self.at += 1;
            self.module(child, &inner);
            self.at += 1;
            child
        } else {
            let flat = format!("{folder}{name}.rs");
            let file = if self.tree.exists(&flat) { flat } else { format!("{inner}mod.rs") };
            self.krate.read_file(self.tree, &file, &inner, Some(index))
        };
        self.krate.modules[index].children.insert(name.to_owned(), child);
    }

    /// Reads a tree of a `use` after `prefix`, up to and without `;`, `,` or `}`.
    fn import(&mut self, index: ModuleIndex, prefix: &mut Vec<String>, public: bool) {
        let depth = prefix.len();
        let mut import = |path: &[String], name: Option<&str>, glob, line| {
            let path = path.to_vec();
            let name = name.map(str::to_owned);
            let import = Import { path, name, glob, public, line };
            self.krate.modules[index].imports.push(import);
        };
        while let Some(token) = self.tokens.get(self.at) {
            let line = token.line;
            match token.kind {
                Kind::Word("as") => {
                    let name = self.tokens.get(self.at + 1).and_then(Token::word);
                    import(prefix, name.filter(|name| *name != "_"), false, line);
                    self.at += 2;
                    break;
                }
                Kind::Word("self") if depth > 0 => self.at += 1,
                Kind::Word(word) => {
                    prefix.push(word.to_owned());
                    self.at += 1;
                }
                Kind::PathSeparator => {
                    self.at += 1;
                    continue;
                }
                Kind::Mark('*') => {
                    import(prefix, None, true, line);
                    self.at += 1;
                    break;
                }
                Kind::Mark('{') => {
                    self.at += 1;
                    while self.tokens.get(self.at).is_some_and(|t| !t.is('}')) {
                        self.import(index, &mut prefix.clone(), public);
                        if self.tokens.get(self.at).is_some_and(|t| t.is(',')) {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    break;
                }
                _ => break,
            }
            // A path that goes on, or gets a new name, is not complete.
            let next = self.tokens.get(self.at).map(|t| t.kind);
            if !matches!(next, Some(Kind::PathSeparator | Kind::Word("as"))) {
                let name = prefix.last().cloned();
                import(prefix, name.as_deref(), false, line);
                break;
            }
        }
        prefix.truncate(depth);
    }

    /// Reads a path in code. A name after a dot is a field or a method and says nothing.
    fn mention(&mut self, index: ModuleIndex, line: usize) {
        let after_dot = self.at > 0 && self.tokens[self.at - 1].is('.');
        let mut path = Vec::new();
        while let Some(word) = self.tokens.get(self.at).and_then(Token::word) {
            path.push(word.to_owned());
            self.at += 1;
            let goes_on = self.tokens.get(self.at).is_some_and(|t| t.kind == Kind::PathSeparator);
            if !goes_on {
                break;
            }
            self.at += 1;
        }
        // `name: T` is a field, a binding or a generic.
        let binds = path.len() == 1 && self.tokens.get(self.at).is_some_and(|t| t.is(':'));
        if !after_dot && !binds && !path.is_empty() {
            self.krate.modules[index].mentions.push(Mention { path, line });
        }
    }

    /// Reads `#[..]` or `#![..]` and says whether what follows is for tests only.
    fn attribute(&mut self) -> bool {
        let start = self.at;
        skip_attribute(self.tokens, &mut self.at);
        is_for_tests(&self.tokens[start..self.at])
    }
}

/// Checks an attribute for `cfg(test)`, alone or among the conditions of `all`.
pub fn is_for_tests(attribute: &[Token<'_>]) -> bool {
    let words: Vec<&str> = attribute.iter().filter_map(Token::word).collect();
    matches!(words[..], ["cfg", "test"] | ["cfg", "all", "test", ..] | ["test"])
}

/// Steps over an attribute that begins at `at`.
pub fn skip_attribute(tokens: &[Token<'_>], at: &mut usize) {
    let mut depth = 0;
    while let Some(token) = tokens.get(*at) {
        *at += 1;
        if token.is('[') {
            depth += 1;
        } else if token.is(']') {
            depth -= 1;
            if depth == 0 {
                return;
            }
        }
    }
}

/// Steps over the item, field, arm or statement that begins at `at`, with its attributes.
pub fn skip_item(tokens: &[Token<'_>], at: &mut usize) {
    while tokens.get(*at).is_some_and(|t| t.is('#')) {
        skip_attribute(tokens, at);
    }
    let start = *at;
    let first = tokens.get(start).and_then(Token::word);
    let until_semicolon = matches!(first, Some("use" | "const" | "static" | "type" | "let"));
    // Items have commas between generics; a field, an arm or a value ends at one.
    let mut word = tokens[start..].iter().filter_map(Token::word);
    let item = word.find(|word| !matches!(*word, "pub" | "crate" | "super" | "in"));
    let items = ["mod", "impl", "unsafe", "async", "extern", "use", "let"];
    let is_item = item.is_some_and(|word| ITEMS.contains(&word) || items.contains(&word));
    let mut depth = 0_usize;
    while let Some(token) = tokens.get(*at) {
        match token.kind {
            Kind::Mark('(' | '[' | '{') => depth += 1,
            Kind::Mark(')' | ']' | '}') if depth == 0 => return,
            Kind::Mark(')' | ']') => depth -= 1,
            Kind::Mark('}') => {
                depth -= 1;
                if depth == 0 && !until_semicolon {
                    *at += 1;
                    return;
                }
            }
            Kind::Mark(';') if depth == 0 => {
                *at += 1;
                return;
            }
            Kind::Mark(',') if depth == 0 && !is_item => {
                *at += 1;
                return;
            }
            _ => {}
        }
        *at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<String> {
        text.split("::").map(str::to_owned).collect()
    }

    fn example() -> Crate {
        let tree = Tree::of(&[
            (
                "crates/x/src/lib.rs",
                "mod a; // one\npub mod b;\nmod inline { pub fn f() {} }\npub use b::Thing;\n\
                 use b::{self as other, deep::{Deep, *}};\n#[cfg(test)]\nmod tests;\n",
            ),
            ("crates/x/src/a.rs", "use crate::Thing;\npub const fn a<T: Copy>(t: T) {}\n"),
            ("crates/x/src/b/mod.rs", "pub mod deep;\npub struct Thing { pub field: u8 }\n"),
            ("crates/x/src/b/deep.rs", "pub struct Deep;\npub fn all() {}\n"),
        ]);
        Crate::read(&tree, "crates/x/src/lib.rs")
    }

    #[test]
    fn every_module_is_found_in_its_file() {
        let krate = example();
        let files: Vec<&str> = krate.modules.iter().map(|m| m.file.as_str()).collect();
        let (lib, folder) = ("crates/x/src/lib.rs", "crates/x/src/b/");
        let deep = format!("{folder}deep.rs");
        assert_eq!(files, [lib, "crates/x/src/a.rs", &format!("{folder}mod.rs"), &deep, lib]);
    }

    #[test]
    fn paths_lead_to_the_home_of_the_item() {
        let krate = example();
        let (a, b, deep, inline) = (1, 2, 3, 4);
        for (from, text, target) in [
            (0, "Thing", Some(Target::Item(b))),
            (a, "crate::Thing", Some(Target::Item(b))),
            (a, "super::b::deep::Deep", Some(Target::Item(deep))),
            (a, "super::all", Some(Target::Item(deep))),
            (deep, "super::super::a::a", Some(Target::Item(a))),
            (deep, "super::made_by_a_macro", Some(Target::Item(b))),
            (0, "other::deep", Some(Target::Module(deep))),
            (0, "inline::f", Some(Target::Item(inline))),
            (0, "std::io", None),
            (a, "field", None),
        ] {
            assert_eq!(krate.resolve(from, &path(text)), target, "{text} from {from}");
        }
    }

    #[test]
    fn code_for_tests_is_left_out() {
        let text = "pub struct A { #[cfg(test)] b: super::gone::B, c: super::C }\n\
                    #[cfg(test)]\nimpl A { fn x() { super::gone::x() } }\n\
                    #[cfg(test)]\nuse super::gone::{Y, Z};\n\
                    fn d() { #[cfg(test)]\n super::gone::d(1, 2); super::e() }\n";
        let tree = Tree::of(&[("src/lib.rs", text)]);
        let krate = Crate::read(&tree, "src/lib.rs");
        let mentions = krate.modules[0].mentions.iter().map(|m| m.path.join("::"));
        let own: Vec<String> = mentions.filter(|m| m.starts_with("super")).collect();
        assert_eq!(own, ["super::C", "super::e"]);
        assert_eq!(krate.modules[0].imports, []);
    }
}
