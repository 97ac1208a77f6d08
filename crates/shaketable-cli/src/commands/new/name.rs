//! Which names a new crate may have.

/// Words of the language, which cannot name a crate.
const KEYWORDS: &str = "abstract as async await become box break const continue crate do dyn else \
    enum extern false final fn for gen if impl in let loop macro match mod move mut override priv \
    pub ref return self static struct super trait true try type typeof union unsafe unsized use \
    virtual where while yield";

/// Crates that every program or every generated crate already has: another of that name would be
/// ambiguous, or stand in its way.
const TAKEN: &str = "alloc core foundationdb foundationdb-sys proc_macro proc-macro shaketable std \
    test tokio";

/// Checks a name, and says what is wrong with it.
pub(super) fn check(name: &str) -> Result<(), String> {
    let spelled = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let is_one_of = |words: &str| words.split(' ').any(|word| word == name);
    let reason = if !spelled {
        "use letters, digits, `-` and `_`, and begin with a letter"
    } else if is_one_of(KEYWORDS) {
        "it is a word of the Rust language"
    } else if is_one_of(TAKEN) {
        "a crate of this name is already there"
    } else {
        return Ok(());
    };
    Err(format!("`{name}` cannot be the name of a crate: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn names_that_cargo_or_the_compiler_would_refuse_are_refused() {
        for name in [
            "", "3abc", "a b", "-x", "größe", "a.b", "crate", "true", "test", "std",
        ] {
            assert!(check(name).is_err(), "{name}");
        }
        for name in ["queue", "my-layer", "tests", "a1_b"] {
            assert_eq!(check(name), Ok(()));
        }
    }
}
