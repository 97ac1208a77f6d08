//! Every public item has an example that is compiled, and so has the README.
//!
//! Whether an item has documentation at all is the compiler's to say (`missing_docs`).

use std::fs;
use std::path::Path;
use syn::{Attribute, Expr, ImplItem, Item, Lit, Meta, Visibility};

#[test]
fn every_public_item_has_an_example_that_is_compiled() {
    let mut items = Vec::new();
    visit(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut items,
    );
    let without: Vec<&str> = items
        .iter()
        .filter(|(_, has_example)| !has_example)
        .map(|(name, _)| name.as_str())
        .collect();
    assert!(without.is_empty(), "no example: {without:#?}");
    assert!(items.len() > 100, "only {} items were found", items.len());
}

fn visit(folder: &Path, found: &mut Vec<(String, bool)>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            visit(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).expect("a source");
            let file = syn::parse_file(&text).expect("what the compiler has read");
            let at = |name: String| format!("{}: {name}", path.display());
            for item in &file.items {
                examine(item, &mut |name, attributes| {
                    found.push((at(name), has_example(attributes)));
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

fn has_example(attributes: &[Attribute]) -> bool {
    let mut lines = attributes.iter().filter_map(|attribute| {
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
    let is_compiled = |line: String| {
        let kind = line.trim().strip_prefix("```").map(str::to_owned);
        kind.is_some_and(|kind| matches!(&*kind, "" | "no_run" | "standalone_crate"))
    };
    lines.any(is_compiled)
}
