//! The default build holds no trace of the planted bugs: neither their names nor code that could ask for them.

#[path = "planted/lists.rs"]
mod lists;

use memchr::memmem;

#[test]
fn the_binary_names_a_planted_bug_only_if_built_with_them() {
    let names = lists::names();
    assert!(names.len() >= 30, "the lists are read: {names:?}");
    let binary = std::fs::read(env!("CARGO_BIN_EXE_highwater")).expect("the command is built");
    let holds = |needle: &str| memmem::find(&binary, needle.as_bytes()).is_some();
    assert!(holds("A replicated, multi-core"), "the binary is searched");
    for name in names {
        assert_eq!(holds(&name), cfg!(feature = "planted"), "{name}");
    }
    // Of the build whose syncs fail when they are told to, neither the order nor the fault.
    for needle in ["next-sync-fails", "fsync-fails"] {
        assert_eq!(holds(needle), cfg!(feature = "failing-syncs"), "{needle}");
    }
    if !cfg!(feature = "planted") {
        // Mangled: the functions that ask, the thread's variable that they look at, the lists, the hunts.
        for owner in [
            "_core",
            "_store",
            "_consensus",
            "_seam",
            "_kit",
            "_log_host",
            "_engine_rolis",
            "_engine_meerkat",
            "_engine_comparisons",
            "_meerkat_client",
            "_redis",
            "_redis_sim",
            "_sim",
        ] {
            let symbol = format!("highwater{owner}7planted");
            assert!(!holds(&symbol), "a symbol of {symbol}");
        }
    }
}
