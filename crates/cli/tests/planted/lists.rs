//! The lists of planted bugs: `bugs!` in files called `planted.rs`, wherever in the crates they stand.

use std::fs;
use std::path::Path;

/// The names on the command line, of `Name = "name" {`.
pub fn names() -> Vec<String> {
    let mut names = Vec::new();
    gather(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut names);
    names
}

fn gather(folder: &Path, names: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder of sources is read") {
        let path = entry.expect("a folder of sources is read").path();
        if path.is_dir() {
            gather(&path, names);
        } else if path.file_name().is_some_and(|name| name == "planted.rs") {
            let text = fs::read_to_string(&path).expect("a list is read");
            let Some((_, list)) = text.split_once("bugs! {") else { continue };
            let listed =
                |line: &str| Some(line.trim().strip_suffix("\" {")?.split_once(" = \"")?.1.to_string());
            names.extend(list.lines().filter_map(listed));
        }
    }
}
