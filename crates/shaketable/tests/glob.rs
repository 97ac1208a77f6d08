//! `use shaketable::*`, as the examples of the published crate have it, breaks nothing.
//!
//! A name that comes by a glob import and is also in the standard prelude is ambiguous where it is
//! a macro, and shadows the prelude's where it is anything else; so is every macro that uses such a
//! name without a path, as `tokio::select!` does with `unreachable!`. The code below uses what the
//! prelude has, and compiles only if each name is the prelude's.
//!
//! A second test reads the sources: no public name of the crate is one of the prelude's.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use syn::{Item, UseTree, Visibility};

mod program {
    use shaketable::*;

    #[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
    struct Derived(u32);

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_attribute_is_the_preludes() {
            assert_eq!(Derived::default(), Derived(0));
        }
    }

    #[test]
    fn beside_the_glob_too() {
        let _: fn(String, WorkloadContext) -> WrappedWorkload =
            |name, _context| WrappedWorkload::unknown(&name);
    }

    pub async fn uses_the_prelude(number: Option<u32>) -> Result<String, String> {
        let Some(number) = number else {
            return Err("none".to_owned());
        };
        let list: Vec<u32> = vec![number, Default::default()];
        let boxed: Box<dyn Fn(u32) -> u32> = Box::new(|n| n + 1);
        let text: String = list.iter().map(|n| format!("{}", boxed(*n))).collect();
        assert!(text.len() >= 2);
        assert_eq!(text.clone(), text);
        assert_ne!(text, "");
        debug_assert!(matches!(number, 1..), concat!("a", stringify!(b)));
        let _lines = (file!(), line!(), column!(), module_path!(), cfg!(test));
        let _formats = (format_args!("{}", 1).to_string(), option_env!("HOME"));
        let _manifest = (
            env!("CARGO_PKG_NAME"),
            include_str!("glob.rs"),
            include_bytes!("glob.rs"),
        );
        debug_assert_eq!(number, list[0]);
        debug_assert_ne!(1, 2);
        thread_local!(static LOCAL: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });
        assert_eq!(LOCAL.get(), 0);
        let _shown = dbg!(Derived(number));
        match number {
            0 => todo!("zero"),
            1 => unimplemented!("one"),
            2 => unreachable!("two is {}", number),
            3 => panic!("three"),
            _ => {}
        }
        print!("");
        println!("{}", std::mem::size_of::<u32>());
        eprint!("");
        let mut out = String::new();
        {
            use std::fmt::Write;
            write!(out, "{text}").map_err(|error| error.to_string())?;
            writeln!(out).map_err(|error| error.to_string())?;
        }
        drop(text);
        reachable!("what the glob brings can be used");
        tokio::select! {
            biased;
            () = async {} => Ok(out),
            () = async {} => unreachable!(),
        }
    }
}

#[test]
fn a_program_with_a_glob_import_compiles_and_runs() {
    let result = futures::executor::block_on(program::uses_the_prelude(Some(7)));
    assert_eq!(result.as_deref(), Ok("81\n"));
}

/// Everything that a program has without importing it.
const PRELUDE: &str = "
    assert assert_eq assert_ne cfg column compile_error concat dbg debug_assert debug_assert_eq
    debug_assert_ne env eprint eprintln file format format_args include include_bytes include_str
    is_x86_feature_detected line matches module_path option_env panic print println stringify
    thread_local todo try unimplemented unreachable vec write writeln
    assert_matches concat_bytes concat_idents const_format_args format_args_nl global_asm log_syntax
    pattern_type trace_macros
    Clone Copy Debug Default Eq Hash Ord PartialEq PartialOrd
    alloc_error_handler bench cfg_accessible cfg_eval derive derive_const global_allocator test
    test_case type_ascribe
    AsMut AsRef AsyncFn AsyncFnMut AsyncFnOnce Box DoubleEndedIterator Drop Err ExactSizeIterator
    Extend Fn FnMut FnOnce From FromIterator Future Into IntoFuture IntoIterator Iterator None Ok
    Option Result Send Sized Some String Sync ToOwned ToString TryFrom TryInto Unpin Vec
    align_of align_of_val drop size_of size_of_val
    bool char f32 f64 i8 i16 i32 i64 i128 isize str u8 u16 u32 u64 u128 usize
    alloc core proc_macro std";

#[test]
fn no_public_name_is_one_of_the_preludes() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut public = BTreeSet::new();
    for item in parse(&sources.join("lib.rs")).items {
        match item {
            Item::Use(item) if matches!(item.vis, Visibility::Public(_)) => {
                names(&item.tree, &mut public);
            }
            Item::Mod(item) if matches!(item.vis, Visibility::Public(_)) => {
                public.insert(item.ident.to_string());
            }
            _ => {}
        }
    }
    exported_macros(&sources, &mut public);
    for known in [
        "always",
        "foundationdb",
        "history",
        "reachable",
        "sim_test",
        "spawn",
    ] {
        assert!(public.contains(known), "{known} was not found: {public:?}");
    }
    let taken: Vec<&str> = PRELUDE
        .split_whitespace()
        .filter(|name| public.contains(*name))
        .collect();
    assert!(taken.is_empty(), "the prelude has these: {taken:?}");
}

/// The names that a `use` makes.
fn names(tree: &UseTree, found: &mut BTreeSet<String>) {
    match tree {
        UseTree::Path(path) => names(&path.tree, found),
        UseTree::Name(name) => drop(found.insert(name.ident.to_string())),
        UseTree::Rename(name) => drop(found.insert(name.rename.to_string())),
        UseTree::Group(group) => group.items.iter().for_each(|tree| names(tree, found)),
        UseTree::Glob(_) => panic!("what a glob re-exports cannot be read here"),
    }
}

/// The macros that are exported from any file: they all are in the root of the crate.
fn exported_macros(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            exported_macros(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            for item in parse(&path).items {
                if let Item::Macro(item) = item
                    && item.attrs.iter().any(|a| a.path().is_ident("macro_export"))
                    && let Some(name) = item.ident
                {
                    found.insert(name.to_string());
                }
            }
        }
    }
}

fn parse(path: &Path) -> syn::File {
    let text = fs::read_to_string(path).expect("a source");
    syn::parse_file(&text).expect("what the compiler has read")
}
