//! A process that is a replica: contained panics are silent, any other one ends it at once.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use highwater_core::contain::{contain, stop_on_panic, unbroken};

/// Which part this process plays, if it is a child.
const PART: &str = "HIGHWATER_TEST_STOPS";
const SIGABRT: i32 = 6;

/// What would run if the panic unwound.
struct Late;

impl Drop for Late {
    fn drop(&mut self) {
        println!("unwound");
    }
}

fn child(part: &str) {
    stop_on_panic();
    let contained = contain(|| panic!("a procedure's own"));
    println!("contained: {}", contained.expect_err("it panicked"));
    let broken = match part {
        "thread" => std::thread::spawn(|| {
            let _late = Late;
            panic!("an invariant of a thread")
        }),
        _ => std::thread::spawn(|| {
            let _late = Late;
            let _ = contain(|| unbroken(|| panic!("an invariant under a procedure")));
        }),
    };
    let _ = broken.join();
    println!("went on");
}

#[test]
fn what_is_not_contained_ends_the_process_before_anything_unwinds() {
    if let Ok(part) = std::env::var(PART) {
        return child(&part);
    }
    for (part, said) in [("thread", "an invariant of a thread"), ("store", "an invariant under a procedure")]
    {
        let this = std::env::current_exe().expect("a test has a file");
        let ended = Command::new(this)
            .args([
                "what_is_not_contained_ends_the_process_before_anything_unwinds",
                "--exact",
                "--nocapture",
            ])
            .env(PART, part)
            .env("RUST_BACKTRACE", "0")
            .output()
            .expect("the test starts itself");
        let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
        assert_eq!(ended.status.signal(), Some(SIGABRT), "{part}: {out}{err}");
        assert!(out.contains("contained: a procedure's own") && !out.contains("went on"), "{part}: {out}");
        assert!(!out.contains("unwound"), "{part}: {out}");
        assert!(err.contains(said) && !err.contains("a procedure's own"), "{part}: {err}");
    }
}
