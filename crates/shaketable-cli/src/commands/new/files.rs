//! The files of a crate with a workload: the same for a crate that stands alone and for one that is
//! written into a workspace.

use super::source::{Source, relative};
use std::path::{Path, PathBuf};

/// A layer that a new crate tests.
#[derive(Debug, Clone)]
pub(in crate::commands) struct Layer {
    /// The name of its package.
    pub(in crate::commands) package: String,
    /// The name of its library, as Rust code spells it.
    pub(in crate::commands) library: String,
    /// Its folder.
    pub(in crate::commands) folder: PathBuf,
}

/// A crate to write.
#[derive(Debug, Clone)]
pub(in crate::commands) struct Plan {
    /// Its name.
    pub(in crate::commands) name: String,
    /// Its folder.
    pub(in crate::commands) folder: PathBuf,
    /// Where it takes Shaketable from.
    pub(in crate::commands) source: Source,
    /// The feature that names the FoundationDB, such as `fdb-7_4`.
    pub(in crate::commands) version: String,
    /// Whether its workload is on tokio.
    pub(in crate::commands) tokio: bool,
    /// What it tests, if that is another crate of its workspace.
    pub(in crate::commands) layer: Option<Layer>,
}

impl Plan {
    /// The name of the library.
    pub(in crate::commands) fn library(&self) -> String {
        self.name.replace('-', "_")
    }

    /// The files, with their paths in the crate.
    pub(in crate::commands) fn files(&self) -> Vec<(String, String)> {
        let (source, more) = match self.tokio {
            true => (
                include_str!("lib.tokio.rs.template"),
                include_str!("tokio.toml.template"),
            ),
            false => (include_str!("lib.rs.template"), ""),
        };
        let mut files = vec![
            ("Cargo.toml".to_owned(), self.manifest(more)),
            ("src/lib.rs".to_owned(), self.fill(source)),
            (
                format!("tests/{}.toml", self.library()),
                self.fill(include_str!("test.toml.template")),
            ),
        ];
        if self.layer.is_none() {
            files.push((".gitignore".to_owned(), "/target\n".to_owned()));
        }
        files
    }

    fn manifest(&self, more_dependencies: &str) -> String {
        let (layer, workspace) = match &self.layer {
            Some(layer) => (layer_dependency(layer, &self.folder), String::new()),
            None => (
                String::new(),
                include_str!("workspace.toml.template")
                    .replace("{{stand-in}}", &self.source.stand_in(&self.folder)),
            ),
        };
        let mut features = vec![self.version.as_str(), "hermetic"];
        if self.tokio {
            features.push("tokio");
        }
        let dependency = self.source.dependency(&self.folder, &features);
        features.insert(0, "embedded");
        let dev_dependency = self.source.dependency(&self.folder, &features);
        self.fill(include_str!("Cargo.toml.template"))
            .replace("{{layer-dependency}}", &layer)
            .replace("{{dependency}}", &dependency)
            .replace("{{dev-dependency}}", &dev_dependency)
            .replace("{{more-dependencies}}", more_dependencies)
            .replace("{{workspace}}", &workspace)
    }

    fn fill(&self, template: &str) -> String {
        let layer = self.layer.as_ref().map_or(String::new(), |layer| {
            format!(
                "// The layer under test. `start` below is the place to call it: what takes a\n\
                 // `&Database` takes `&db`.\nuse {} as _;\n\n",
                layer.library
            )
        });
        template
            .replace("{{layer}}", &layer)
            .replace("{{name}}", &self.name)
            .replace("{{library}}", &self.library())
    }
}

fn layer_dependency(layer: &Layer, folder: &Path) -> String {
    let path = relative(folder, &layer.folder);
    format!("{} = {{ path = {path:?} }}\n", layer.package)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shaketable_host::testfile::TestFile;

    fn plan(tokio: bool, layer: Option<Layer>) -> Plan {
        Plan {
            name: "my-workloads".to_owned(),
            folder: PathBuf::from("/home/ada/my-workloads"),
            source: Source::Clone(PathBuf::from("/home/ada/shaketable")),
            version: "fdb-7_4".to_owned(),
            tokio,
            layer,
        }
    }

    fn layer() -> Layer {
        Layer {
            package: "my-layer".to_owned(),
            library: "my_layer".to_owned(),
            folder: PathBuf::from("/home/ada/my-layer"),
        }
    }

    #[test]
    fn the_test_file_of_a_new_crate_names_its_library() {
        let files = plan(false, None).files();
        let (path, text) = &files[2];
        let file = TestFile::parse(Path::new(path), text).unwrap_or_else(|error| panic!("{error}"));
        let workload = &file.tests[0].workloads[0];
        assert_eq!(workload.option("libraryName"), Some("my_workloads"));
    }

    #[test]
    fn no_placeholder_and_no_folder_of_this_machine_is_left_in_a_new_crate() {
        for tokio in [false, true] {
            for layer in [None, Some(layer())] {
                for (path, text) in plan(tokio, layer).files() {
                    assert!(!text.contains("{{"), "{path}:\n{text}");
                    assert!(!text.contains("/home"), "{path}:\n{text}");
                }
            }
        }
    }

    #[test]
    fn a_crate_that_stands_alone_is_its_own_workspace() {
        insta::assert_snapshot!(plan(false, None).files()[0].1);
    }

    #[test]
    fn a_crate_in_a_workspace_depends_on_the_layer() {
        insta::assert_snapshot!(plan(true, Some(layer())).files()[0].1);
    }
}
