//! The default build holds no trace of the planted bugs: neither their names nor code that could ask for them.

use memchr::memmem;

/// Where they are listed, as `Name = "name-on-the-command-line",`.
const LIST: &str = include_str!("../../core/src/planted.rs");

#[test]
fn the_binary_names_a_planted_bug_only_if_built_with_them() {
    let listed = |line: &'static str| line.trim().strip_suffix("\",")?.split_once(" = \"");
    let names: Vec<&str> = LIST.lines().filter_map(listed).map(|(_, name)| name).collect();
    assert!(names.len() >= 12, "the list is read: {names:?}");
    let binary = std::fs::read(env!("CARGO_BIN_EXE_highwater")).expect("the command is built");
    let holds = |needle: &str| memmem::find(&binary, needle.as_bytes()).is_some();
    assert!(holds("A replicated, multi-core"), "the binary is searched");
    for name in names {
        assert_eq!(holds(name), cfg!(feature = "planted"), "{name}");
    }
    if !cfg!(feature = "planted") {
        // Mangled: the functions that ask, and the thread's variable that they look at.
        assert!(!holds("highwater_core7planted"), "a symbol of highwater_core::planted");
    }
}
