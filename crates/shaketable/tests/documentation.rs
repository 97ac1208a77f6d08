//! What the examples in the documentation owe a reader.
//!
//! Every public type, trait, function and macro has one that is compiled; methods have one where it
//! shows more than their signature does. And no example is empty: each does something with what it
//! makes. Whether an item has documentation at all is checked by the compiler (`missing_docs`).
//! The examples that are crates are all built with the workspace, except the one on tokio.

use std::fs;
use std::path::Path;
use syn::{Attribute, Expr, ImplItem, Item, Lit, Meta, Visibility};

#[test]
fn every_public_type_function_and_macro_has_an_example_that_is_compiled() {
    let items = items();
    let owing = items.iter().filter(|item| !item.is_method);
    let without: Vec<&str> = owing
        .filter(|item| item.examples.is_empty())
        .map(|item| &*item.name)
        .collect();
    assert!(without.is_empty(), "no example: {without:#?}");
    assert!(items.len() > 100, "only {} items were found", items.len());
}

#[test]
fn every_example_shows_something() {
    let items = items();
    let empty: Vec<&str> = items
        .iter()
        .filter(|item| {
            item.examples
                .iter()
                .any(|example| !shows_something(example))
        })
        .map(|item| &*item.name)
        .collect();
    assert!(empty.is_empty(), "nothing but definitions: {empty:#?}");
    assert!(!shows_something(
        "use a::B;\n\nlet b = B::new(); // nice\n# drop(b);\n"
    ));
    assert!(!shows_something("test(async |_db, _context| {});\n"));
    assert!(shows_something("let b = B::new();\nassert!(b.is_new());\n"));
}

#[test]
fn every_example_but_the_service_is_built_by_default() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("the workspace");
    let members = manifest.split("default-members = [").nth(1);
    let members = members.and_then(|text| text.split(']').next());
    let members = members.expect("default members");
    for entry in fs::read_dir(root.join("examples")).expect("examples") {
        let name = entry.expect("an entry").file_name();
        let name = name.to_str().expect("a plain name");
        let is_default = members.contains(&format!("\"examples/{name}\""));
        assert_eq!(is_default, name != "service", "{name}");
    }
}

/// Whether a reader sees more than names being imported, bound, or handed an empty body.
fn shows_something(example: &str) -> bool {
    let seen = example.lines().map(str::trim).filter(|line| {
        let is_hidden = line.starts_with("# ") || *line == "#";
        !line.is_empty() && !is_hidden && !line.starts_with("//") && !line.starts_with("use ")
    });
    let mut seen = seen.filter(|line| !line.ends_with("_context| {});"));
    seen.any(|line| !(line.starts_with("let ") && line.contains(';')))
}

/// A public item.
struct Documented {
    name: String,
    is_method: bool,
    /// The text of each example that is compiled.
    examples: Vec<String>,
}

fn items() -> Vec<Documented> {
    let mut items = Vec::new();
    visit(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut items,
    );
    items
}

fn visit(folder: &Path, found: &mut Vec<Documented>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            visit(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).expect("a source");
            let file = syn::parse_file(&text).expect("what the compiler has read");
            for item in &file.items {
                examine(item, &mut |name, attributes| {
                    found.push(Documented {
                        is_method: name.contains("::"),
                        name: format!("{}: {name}", path.display()),
                        examples: examples(attributes),
                    });
                });
            }
        }
    }
}

fn examine(item: &Item, found: &mut impl FnMut(String, &[Attribute])) {
    let (visibility, attributes, name) = match item {
        Item::Const(item) => (&item.vis, &item.attrs, &item.ident),
        Item::Enum(item) => (&item.vis, &item.attrs, &item.ident),
        Item::Fn(item) => (&item.vis, &item.attrs, &item.sig.ident),
        Item::Static(item) => (&item.vis, &item.attrs, &item.ident),
        Item::Struct(item) => (&item.vis, &item.attrs, &item.ident),
        Item::Trait(item) => (&item.vis, &item.attrs, &item.ident),
        Item::Type(item) => (&item.vis, &item.attrs, &item.ident),
        Item::Macro(item) => {
            let is_exported = item.attrs.iter().any(|a| a.path().is_ident("macro_export"));
            if let Some(name) = item.ident.as_ref().filter(|_| is_exported)
                && is_shown(&item.attrs)
            {
                found(format!("{name}!"), &item.attrs);
            }
            return;
        }
        Item::Impl(block) if block.trait_.is_none() => {
            let syn::Type::Path(path) = &*block.self_ty else {
                return;
            };
            let of = &path.path.segments.last().expect("a name").ident;
            for item in &block.items {
                if let ImplItem::Fn(method) = item
                    && matches!(method.vis, Visibility::Public(_))
                    && is_shown(&method.attrs)
                {
                    found(format!("{of}::{}", method.sig.ident), &method.attrs);
                }
            }
            return;
        }
        _ => return,
    };
    if matches!(visibility, Visibility::Public(_)) && is_shown(attributes) {
        found(name.to_string(), attributes);
    }
}

/// Neither hidden nor the stand-in for something that a feature brings.
fn is_shown(attributes: &[Attribute]) -> bool {
    !attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => {
            let words = list.tokens.to_string();
            (list.path.is_ident("doc") && words == "hidden")
                || (list.path.is_ident("cfg") && words.starts_with("not"))
        }
        _ => false,
    })
}

fn examples(attributes: &[Attribute]) -> Vec<String> {
    let lines = attributes.iter().filter_map(|attribute| {
        let Meta::NameValue(pair) = &attribute.meta else {
            return None;
        };
        match &pair.value {
            Expr::Lit(literal) if pair.path.is_ident("doc") => match &literal.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        }
    });
    let text: Vec<String> = lines.collect();
    let text = text.join("\n");
    // Every second piece is between two fences, and its first line names its language.
    let blocks = text.split("```").skip(1).step_by(2);
    let compiled = blocks.filter_map(|block| {
        let (kind, code) = block.split_once('\n')?;
        matches!(kind, "" | "no_run" | "standalone_crate").then(|| code.to_owned())
    });
    compiled.collect()
}
