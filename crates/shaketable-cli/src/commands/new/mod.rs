//! `new`: a crate with a workload, a test file, and everything to run it.

mod name;

use crate::args::NewArgs;
use crate::cargo::SYS_FILES;
use crate::exit_codes;
use std::fs;
use std::path::Path;

/// Writes the crate.
pub fn new(args: &NewArgs) -> u8 {
    let folder = Path::new(&args.name);
    let name = folder
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    if let Err(message) = name::check(&name) {
        eprintln!("error: {message}");
        return exit_codes::USAGE;
    }
    if folder.exists() {
        eprintln!(
            "error: {} already exists: choose another name",
            folder.display()
        );
        return exit_codes::SETUP_FAILED;
    }
    for (path, text) in files(&name, source_folder().as_deref(), args.tokio) {
        let path = folder.join(path);
        let written = fs::create_dir_all(path.parent().expect("below the folder"))
            .and_then(|()| fs::write(&path, text));
        if let Err(error) = written {
            eprintln!("error: cannot write {}: {error}", path.display());
            return exit_codes::SETUP_FAILED;
        }
    }
    println!(
        "{} is ready:\n  cd {}\n  cargo test\n  cargo shaketable run --seeds 100",
        folder.display(),
        folder.display()
    );
    exit_codes::PASSED
}

/// The source this program was built from, if it is still there: a crate can then depend on it by
/// path.
fn source_folder() -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = folder.canonicalize().ok()?;
    folder
        .join("crates/shaketable/Cargo.toml")
        .is_file()
        .then(|| folder.display().to_string())
}

fn files(name: &str, source: Option<&str>, tokio: bool) -> Vec<(String, String)> {
    let library = name.replace('-', "_");
    let place = match source {
        Some(source) => format!("path = {:?}", format!("{source}/crates/shaketable")),
        None => format!("version = {:?}", env!("CARGO_PKG_VERSION")),
    };
    let dependency = |features: &str| format!("{{ {place}, features = [{features}] }}");
    let (features, dependencies, source) = match tokio {
        true => (
            r#""fdb-7_4", "tokio""#,
            include_str!("tokio.toml.template"),
            include_str!("lib.tokio.rs.template"),
        ),
        false => (r#""fdb-7_4""#, "", include_str!("lib.rs.template")),
    };
    let fill = |template: &str| {
        template
            .replace("{{name}}", name)
            .replace("{{library}}", &library)
            .replace("{{dependency}}", &dependency(features))
            .replace(
                "{{dev-dependency}}",
                &dependency(&format!(r#""embedded", {features}"#)),
            )
            .replace("{{more-dependencies}}", dependencies)
    };
    let mut files = vec![
        (
            "Cargo.toml".to_owned(),
            fill(include_str!("Cargo.toml.template")),
        ),
        ("src/lib.rs".to_owned(), fill(source)),
        (
            format!("tests/{library}.toml"),
            fill(include_str!("test.toml.template")),
        ),
        (".gitignore".to_owned(), "/target\n".to_owned()),
    ];
    let vendored = SYS_FILES.iter();
    files.extend(vendored.map(|(path, text)| {
        (
            format!("vendor/foundationdb-sys/{path}"),
            (*text).to_owned(),
        )
    }));
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use shaketable_host::testfile::TestFile;

    #[test]
    fn the_test_file_of_a_new_crate_names_its_library() {
        let files = files("my-workloads", None, false);
        let (path, text) = &files[2];
        let file = TestFile::parse(Path::new(path), text).unwrap_or_else(|error| panic!("{error}"));
        let workload = &file.tests[0].workloads[0];
        assert_eq!(workload.option("libraryName"), Some("my_workloads"));
    }

    #[test]
    fn no_placeholder_is_left_in_a_new_crate() {
        for tokio in [false, true] {
            let files = files("my-workloads", Some("/source"), tokio).into_iter();
            for (path, text) in files.filter(|(path, _)| !path.starts_with("vendor")) {
                assert!(!text.contains("{{"), "{path}");
            }
        }
    }

    #[test]
    fn one_feature_switches_tokio_on() {
        let files = files("my-workloads", None, true);
        let (_, manifest) = &files[0];
        let lines = manifest
            .lines()
            .filter(|line| line.starts_with("shaketable ="));
        for line in lines {
            assert!(line.contains(r#""tokio""#), "{line}");
        }
        assert!(manifest.contains("\ntokio = "), "{manifest}");
    }
}
