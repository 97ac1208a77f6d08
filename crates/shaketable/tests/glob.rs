//! `use shaketable::*`, as the examples of the published crate have it, breaks nothing.
//!
//! A name that comes by a glob import and is also in the standard prelude is ambiguous where it is
//! a macro, and shadows the prelude's where it is anything else; so is every macro that uses such a
//! name without a path, as `tokio::select!` does with `unreachable!`. The code below uses what the
//! prelude has, and compiles only if each name is the prelude's.
//!
//! One name is taken on purpose, in test programs alone: the attribute `shaketable::test`, which
//! like `tokio::test` is meant to be written with its path.

mod program {
    use shaketable::*;

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
