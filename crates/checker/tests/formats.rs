//! The formats: what is written is read again, what is wrong is refused with its place, and Elle's events are as agreed.

use std::io::Write as _;

use highwater_checker::history::{write_edn, write_json_events};
use highwater_checker::{History, Op, Status, Txn, Writer};

const RUN: &str = include_str!("golden/run.jsonl");

fn parse(text: &str) -> History {
    History::parse("test", text.as_bytes()).expect("a good history")
}

fn refused(text: &str) -> String {
    History::parse("run.jsonl", text.as_bytes()).expect_err("a bad history").to_string()
}

#[test]
fn what_is_written_is_read_again_byte_by_byte() {
    let mut written = Vec::new();
    parse(RUN).write(&mut written).unwrap();
    assert_eq!(String::from_utf8(written).unwrap(), RUN);
    let placed = "{\"p\":1,\"t0\":5,\"t1\":9,\"st\":\"ok\",\"c\":[7,2],\"ops\":[[\"a\",\"x\",1]]}\n";
    let mut again = Vec::new();
    parse(placed).write(&mut again).unwrap();
    assert_eq!(String::from_utf8(again).unwrap(), placed);
}

#[test]
fn a_streaming_writer_writes_what_the_history_writes() {
    let mut keys = highwater_checker::Keys::default();
    let key = keys.intern("a \"quoted\" key\n");
    let txn = Txn {
        process: 1,
        t0: 5,
        t1: None,
        status: Status::Info,
        ops: vec![Op::Append { key, value: -3 }, Op::ReadList { key, value: Some(vec![1]) }],
        snap: false,
        since: None,
        place: None,
    };
    let mut writer = Writer::new(Vec::new());
    writer.write(&keys, &txn).unwrap();
    let bytes = writer.finish().unwrap();
    let text = String::from_utf8(bytes).unwrap();
    assert!(
        text.ends_with(
            "[[\"a\",\"a \\\"quoted\\\" key\\n\",-3],[\"r\",\"a \\\"quoted\\\" key\\n\",null]]}\n"
        ),
        "{text}"
    );
    let back = parse(&text);
    assert_eq!(back.keys.name(back.txns[0].ops[0].key()), "a \"quoted\" key\n");
    assert_eq!(back.txns[0].ops[1], Op::ReadList { key, value: None }, "unknown outcomes tell nothing");
}

#[test]
fn files_are_read_one_after_the_other() {
    let folder = std::env::temp_dir().join(format!("highwater-checker-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let paths = [folder.join("a.jsonl"), folder.join("b.jsonl")];
    for (path, p) in paths.iter().zip(0..) {
        let mut file = std::fs::File::create(path).unwrap();
        writeln!(file, r#"{{"p":{p},"t0":1,"t1":2,"st":"ok","ops":[["r","x",[]]]}}"#).unwrap();
    }
    let history = History::read(&paths).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!((history.txns.len(), history.keys.len()), (2, 1));
    assert!(History::read(&paths).unwrap_err().to_string().starts_with(&paths[0].display().to_string()));
}

#[test]
fn nulls_are_read_by_what_their_key_is() {
    let history = parse(concat!(
        r#"{"p":0,"t0":1,"st":"info","ops":[["r","list",null],["r","reg",null],["r","new",null]]}"#,
        "\n",
        r#"{"p":1,"t0":1,"t1":2,"st":"ok","ops":[["a","list",1],["r","reg",null]]}"#,
    ));
    let key = |name: &str| history.keys.clone().intern(name);
    assert_eq!(history.txns[0].ops[0], Op::ReadList { key: key("list"), value: None });
    assert_eq!(history.txns[0].ops[1], Op::ReadReg { key: key("reg"), value: None });
    assert_eq!(history.txns[0].ops[2], Op::ReadList { key: key("new"), value: None });
    assert_eq!(history.txns[1].ops[1], Op::ReadReg { key: key("reg"), value: Some(None) });
}

#[test]
fn a_bad_line_is_refused_with_its_place_and_the_reason() {
    let line = |rest: &str| format!("\n{{\"p\":0,\"t0\":5,{rest}}}\n");
    for (text, reason) in [
        (line(r#""st":"ok","ops":[]"#), r#"run.jsonl:2: an "ok" transaction needs "t1""#),
        (line(r#""t1":4,"st":"ok","ops":[]"#), r#"run.jsonl:2: "t1" (4) is before "t0" (5)"#),
        (line(r#""t1":6,"st":"info","ops":[]"#), r#"run.jsonl:2: an "info" transaction has no "t1""#),
        (line(r#""t1":6,"st":"ok","since":3,"ops":[]"#), r#"run.jsonl:2: "since" is for lines with "snap""#),
        (line(r#""t1":6,"st":"done","ops":[]"#), r#"run.jsonl:2: "st" is "done"; it must be"#),
        (line(r#""t1":6,"st":"ok","ops":[["x","k",1]]"#), "run.jsonl:2: unknown variant `x`"),
        (
            line(r#""t1":6,"st":"ok","ops":[["a","k",null]]"#),
            r#"run.jsonl:2: an append to "k" needs an integer"#,
        ),
        (
            line(r#""t1":6,"st":"ok","ops":[["a","k"]]"#),
            "run.jsonl:2: invalid length 2, expected an operation",
        ),
        (line(r#""t1":6,"st":"ok","ops":[["a","k",1,2]]"#), "run.jsonl:2: invalid length 4"),
        (line(r#""t1":6,"st":"ok","ops":[],"more":1"#), "run.jsonl:2: unknown field `more`"),
        (
            line(r#""t1":6,"st":"ok","ops":[["a","k",1],["w","k",2]]"#),
            r#"key "k" is used as a list and as a register"#,
        ),
        (line(r#""t1":6,"st":"ok","ops":[["r","k",null],["a","k",2]]"#), r#"null read from list "k""#),
        (
            line(r#""t1":6,"st":"ok","ops":[["r","k","v"]]"#),
            "expected an integer, a list of integers or null",
        ),
        ("{\"p\":0,".to_string(), "run.jsonl:1: EOF while parsing"),
    ] {
        let error = refused(&text);
        assert!(error.contains(reason), "{error}\nshould say: {reason}");
    }
}

#[test]
fn events_for_elle_are_as_agreed() {
    let (mut edn, mut json) = (Vec::new(), Vec::new());
    write_edn(&parse(RUN), &mut edn).unwrap();
    write_json_events(&parse(RUN), &mut json).unwrap();
    let (edn, json) = (String::from_utf8(edn).unwrap(), String::from_utf8(json).unwrap());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/");
        std::fs::write(format!("{folder}run.edn"), &edn).unwrap();
        std::fs::write(format!("{folder}run.json"), &json).unwrap();
    }
    assert_eq!(edn, include_str!("golden/run.edn"));
    assert_eq!(json, include_str!("golden/run.json"));
    serde_json::from_str::<serde_json::Value>(&json).expect("one JSON document");
}
