//! Users apart from connections. What connections are told is in the golden stories.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::access::Access;
use super::caller::{Caller, Standing};
use super::categories::Categories;
use super::change::{self, ChangeUsers, News};
use super::keys::{self, READ, WRITE};
use super::selector::Reading;
use super::user::{SetUserError, User};
use super::{Denied, MAX_NAME_BYTES, file, ids, may, row};
use crate::command::{Command, Keyless, Opcode, flags};
use crate::request::Args;
use crate::tests::double::Node;
use highwater_core::codec::Reader;
use highwater_core::{Outcome, Procedure, ProcedureId};

fn words(text: &str) -> impl Iterator<Item = &[u8]> {
    text.split(' ').filter(|word| !word.is_empty()).map(str::as_bytes)
}

fn user(rules: &str) -> User {
    User::new(b"u").with(words(rules), Reading::Typed).unwrap()
}

/// Whether a user may run a command, typed with spaces between its words.
fn runs(user: &User, command: &str) -> Result<(), String> {
    let mut parts: Vec<&[u8]> = words(command).collect();
    let opcode = Opcode::find(parts.remove(0)).unwrap();
    let mut bytes = Vec::new();
    Args::encode(parts.into_iter(), &mut bytes);
    let args = Args::decode(&mut Reader::new(&bytes)).unwrap();
    may(user, opcode, args).map_err(|denied| match denied {
        Denied::Command(name) => name.to_string(),
        other => String::from_utf8(other.object()).unwrap(),
    })
}

const TELLS_OF_THE_CLUSTER: [&str; 7] = [
    "cluster|info",
    "cluster|keyslot",
    "cluster|links",
    "cluster|myid",
    "cluster|nodes",
    "cluster|shards",
    "cluster|slots",
];

/// Categories, and what is done to keys, as Redis 7.0.15 told them in `COMMAND INFO`; a line of the file is
/// `name: categories: what its key specifications do`.
#[test]
fn categories_and_keys_are_those_of_redis() {
    let told: BTreeMap<&str, &str> =
        include_str!("redis_7_0.txt").lines().map(|line| line.split_once(": ").unwrap()).collect();
    let mut compared = 0;
    for named in ids::all() {
        let Some(told) = told.get(named.full_name()) else {
            // Ours, three of Redis 7.2, and those of Sentinels, whose categories we chose.
            let known = named.spec.name.starts_with("hw.")
                || named.spec.name == "sentinel"
                || ["client|setinfo", "client|no-touch", "cluster|myshardid"].contains(&named.full_name());
            assert!(known, "{}", named.full_name());
            continue;
        };
        let (categories, does) = told.split_once(": ").unwrap_or((told, ""));
        let mut ours: Vec<_> = Categories::of(&named).names().collect();
        ours.sort_unstable();
        // What tells of the cluster, cluster clients need: the one difference, and of these alone.
        if TELLS_OF_THE_CLUSTER.contains(&named.full_name()) {
            ours.retain(|category| *category != "connection");
        }
        assert_eq!(ours.join(" "), categories, "{}", named.full_name());
        if named.sub.is_none() && !does.is_empty() {
            let does: Vec<u8> = does
                .split(' ')
                .map(|does| match does {
                    "r" => READ,
                    "w" => WRITE,
                    "rw" => READ | WRITE,
                    _ => 0,
                })
                .collect();
            assert_eq!(done_to_keys(named.spec.name), does, "{}", named.spec.name);
        }
        compared += 1;
    }
    assert!(compared > 200, "{compared}");
}

/// Words with which a command, or subcommand, names keys or a table, if it names any.
fn naming(named: &ids::Named) -> Vec<&'static str> {
    let mut words = match named.sub {
        Some(sub) => vec![sub.name, "forbidden"],
        None => match named.spec.name {
            name if name.ends_with("mpop") && name.starts_with('b') => vec!["0", "1"],
            name if name.ends_with("store") && named.spec.has(flags::MOVABLEKEYS) => vec!["forbidden", "1"],
            "bitop" => vec!["and"],
            _ if named.spec.group == "scripting" && named.sub.is_none() => vec!["x", "1"],
            _ if named.spec.has(flags::MOVABLEKEYS) => vec!["1"],
            _ => Vec::new(),
        },
    };
    words.extend(["forbidden"; 4]);
    words
}

/// Every command is asked for its keys: it denies them, or says why it has none, and that reason is looked at.
#[test]
fn every_command_has_keys_or_a_reason_to_have_none() {
    let alice = user("~allowed ~hw.table:allowed +@all");
    for named in ids::all() {
        let (name, words) = (named.full_name(), naming(&named));
        let told = runs(&alice, &format!("{} {}", named.spec.name, words.join(" ")));
        let (denied, of_data) = (Err("forbidden".into()), named.spec.command == Command::Data);
        let has_categories =
            |wanted: &[&str]| Categories::of(&named).names().any(|category| wanted.contains(&category));
        match named.spec.keyless {
            None | Some(Keyless::Counted) => assert_eq!(told, denied, "{name}"),
            Some(Keyless::Table) if name == "hw.table" => {}
            Some(Keyless::Table) if name.ends_with("|list") || name.ends_with("|help") => {}
            Some(Keyless::Table) => assert_eq!(told, Err("hw.table:forbidden".into()), "{name}"),
            Some(Keyless::OfSubcommands)
                if ["usage", "encoding", "freq", "idletime", "refcount"]
                    .contains(&named.sub.map_or("", |sub| sub.name)) =>
            {
                assert_eq!(told, denied, "{name}");
            }
            Some(Keyless::OfSubcommands) => {}
            // What looks at any key is in no category of connections.
            Some(Keyless::Whole) => {
                assert!(of_data && !has_categories(&["connection", "transaction", "scripting"]), "{name}");
            }
            Some(Keyless::Session) => assert!(named.spec.asks_caller() && of_data, "{name}"),
            Some(Keyless::Procedure) => assert!(named.spec.name.starts_with("hw."), "{name}"),
            Some(Keyless::Code) => assert!(of_data && named.spec.group == "scripting", "{name}"),
            Some(Keyless::Behind) => assert_eq!(name, "hw.once"),
            Some(Keyless::NoData) => assert!(!of_data, "{name}: it touches data"),
        }
        let fixed = named.spec.keys.first != 0;
        assert_eq!(fixed, named.spec.keyless.is_none(), "{name}: its row says two things");
    }
}

/// What a command does to its keys, each kind once, when it is called with words that make sense to all of them.
fn done_to_keys(name: &str) -> Vec<u8> {
    let opcode = Opcode::find(name.as_bytes()).unwrap();
    let words: &[&str] = match name {
        "set" | "bitfield" => &["k", "set", "get"],
        _ if name.ends_with("mpop") && name.starts_with('b') => &["0", "1", "k"],
        _ if name.ends_with("store") && opcode.spec().has(flags::MOVABLEKEYS) => &["d", "1", "k"],
        _ if opcode.spec().has(flags::MOVABLEKEYS) => &["1", "k"],
        "bitop" => &["and", "d", "k"],
        "mset" | "msetnx" => &["k", "v"],
        _ => &["k", "k", "0"],
    };
    let mut bytes = Vec::new();
    Args::encode(words.iter().map(|word| word.as_bytes()), &mut bytes);
    let args = Args::decode(&mut Reader::new(&bytes)).unwrap();
    let mut does = Vec::new();
    keys::visit(opcode, args, |_, needs| {
        if does.last() != Some(&needs) {
            does.push(needs);
        }
        true
    });
    does
}

#[test]
fn a_user_survives_its_row_and_its_description() {
    for rules in [
        "",
        "on nopass ~* &* +@all",
        "on >a >b ~a:* %R~b:* %W~c +@all -@dangerous +keys -config +config|get +get|x",
        "off skip-sanitize-payload &x -@all +@read -get (+@write ~x %R~)y) ( ~z +get )",
        "+@all -flushall -@scripting +@connection",
    ] {
        let first = user(rules);
        let stored = row::decode(b"u", &row::encode(&first)).unwrap();
        for named in ids::all() {
            let command = format!("{} {}", named.spec.name, named.sub.map_or("a:1", |sub| sub.name));
            assert_eq!(runs(&stored, &command), runs(&first, &command), "{rules}: {command}");
        }
        assert_eq!(stored, first, "{rules}");
    }
}

/// A later build wrote rules about a command of its own: they stay, and do nothing here.
#[test]
fn what_a_later_build_wrote_is_kept() {
    let text = b"on\nnopass\n~*\nresetchannels\n-@all\n+get\n+later\n+@novel\n-get|new";
    let user = row::decode(b"u", text).unwrap();
    assert_eq!(row::encode(&user), text);
    assert_eq!((runs(&user, "get a"), runs(&user, "set a b")), (Ok(()), Err("set".into())));
    // What nobody can guess the meaning of makes no user at all.
    assert!(row::decode(b"u", b"on\n+@all\nonly-on-mondays").is_err());
}

#[test]
fn rules_name_what_they_deny() {
    let alice = user("~a:* %R~r:* +@all -@dangerous -config +config|get -set");
    for (command, denied) in [
        ("get a:1", None),
        ("get r:1", None),
        ("get b", Some("b")),
        ("set a:1 x", Some("set")),
        ("append r:1 x", Some("r:1")),
        ("mget a:1 r:1 c", Some("c")),
        ("mset a:1 v a:2 v", None),
        ("mset a:1 v r:1 v", Some("r:1")),
        ("zunionstore a:1 2 r:1 r:2", None),
        ("zunionstore r:1 1 a:1", Some("r:1")),
        ("zunion 2 a:1 x", Some("x")),
        ("bitop and a:1 r:1 r:2", None),
        ("copy r:1 a:1", None),
        ("exists r:1", None),
        ("object encoding b", Some("b")),
        ("memory usage r:1", None),
        ("config get x", None),
        ("config set x y", Some("config|set")),
        ("flushall", Some("flushall")),
        ("blmpop 0 2 a:1 b left", Some("b")),
        ("blpop a:1 b 0", Some("b")),
        ("auth x", None),
        ("hello", None),
    ] {
        assert_eq!(runs(&alice, command).err().as_deref(), denied, "{command}");
    }
    let nobody = user("");
    assert_eq!(runs(&nobody, "ping"), Err("ping".into()));
    assert_eq!(runs(&nobody, "quit"), Ok(()));
    // Words that make no sense have no keys: such a command ends in an error of its own.
    for command in ["zunion 99 b", "zunion -1 b", "zunion x b", "lmpop 18446744073709551615 b"] {
        assert_eq!(runs(&alice, command), Ok(()), "{command}");
    }
}

/// Lines from manuals of Redis's exporters, Sentinels, replicas and charts.
#[test]
fn rules_may_name_what_redis_has_and_this_has_not() {
    for rules in [
        "on nopass resetchannels -@all +@connection +memory -readonly +strlen +config|get +xinfo +pfcount -quit +zcard +type +xlen -readwrite -command +client -wait +scard +llen +hlen +get +eval +slowlog +cluster|info -hello -echo +info +latency +scan -reset -auth -asking",
        "on nopass resetchannels -@all +psync +replconf +ping",
        "on nopass resetchannels -@all +multi +slaveof +ping +exec +subscribe +config|rewrite +role +publish +info +client|setname +client|kill +script|kill",
        "on nopass ~* resetchannels +@all -sort -migrate -module -restore -debug",
        "on nopass ~* resetchannels -@all +@stream +xgroup|create +latency|graph +xadd|mystream -sort_ro (%R~x resetchannels -@all +xread)",
    ] {
        let first = user(rules);
        let told = String::from_utf8(first.describe()).unwrap();
        for absent in [
            "xinfo",
            "asking",
            "psync",
            "sort",
            "module",
            "xgroup|create",
            "latency|graph",
            "xadd|mystream",
            "+xread",
        ] {
            assert_eq!(rules.contains(absent), told.contains(absent), "{rules}: {told}");
        }
        // Once more, as a file or a row has it, nothing changes.
        assert_eq!(user(&told), first, "{told}");
        assert_eq!(row::decode(b"u", &row::encode(&first)).unwrap(), first, "{told}");
        assert!(!first.may_everything(), "{told}");
        let file = format!("user u {told}");
        assert_eq!(file::parse(&file).unwrap()[0].1, row::encode(&first), "{told}");
    }
    for nonsense in
        ["+xad", "+xgroup|make", "-xadd|k", "+latency|graphs", "-nothing", "+", "-", "+|", "+xgroup|create|x"]
    {
        assert!(User::new(b"u").with([nonsense.as_bytes()], Reading::Typed).is_err(), "{nonsense}");
    }
}

/// A command that looks at everybody's keys is no matter of connections, by whichever name it is called.
/// Once: `+@all -hw.keysinslot` took nothing away: the command is looked at under another name.
#[test]
fn a_user_of_connections_lists_nobodys_keys() {
    let worker = user("~jobs:* +@list +@connection");
    for command in [
        "cluster getkeysinslot 1 10",
        "cluster countkeysinslot 1",
        "hw.keysinslot 1",
        "hw.keysinslot 1 10",
        "keys *",
        "scan 0",
        "randomkey",
        "dbsize",
        "hw.table list",
    ] {
        assert!(runs(&worker, command).is_err(), "{command}");
    }
    assert_eq!(runs(&worker, "cluster slots"), Ok(()));
    // A rule about the command is one about what it stands for, and the other way round.
    for rules in ["+@all -hw.keysinslot", "+@all -cluster|getkeysinslot", "+@all -cluster"] {
        let user = user(&format!("~* {rules}"));
        assert!(runs(&user, "hw.keysinslot 1 10").is_err(), "{rules}");
        assert!(runs(&user, "cluster getkeysinslot 1 10").is_err(), "{rules}");
    }
    assert_eq!(runs(&user("+hw.keysinslot"), "hw.keysinslot 1 10"), Ok(()));
    assert!(runs(&user("~* +@all -hw.invoke"), "hw.call x").is_err());
    assert!(runs(&user("~* +@all -hw.memory"), "hw.memory stats").is_err());
}

#[test]
fn patterns_that_branch_end_soon() {
    let bomb = format!("~{}b", "a*".repeat(500));
    let user = user(&format!("on {bomb} +get"));
    let key = "a".repeat(60_000);
    assert_eq!(runs(&user, &format!("get {key}")), Err(key));
}

#[test]
fn names_and_patterns_are_bounded() {
    let long = "x".repeat(MAX_NAME_BYTES + 1);
    assert_eq!(super::user::check_name(long.as_bytes()), Err(SetUserError::NameTooLong));
    for word in [format!("~{long}"), format!("&{long}"), format!("+get|{long}")] {
        assert!(User::new(b"u").with([word.as_bytes()], Reading::Typed).is_err());
    }
    // A word of any bytes is one or none, and never a panic.
    for byte in 0..=255 {
        for word in
            [vec![byte], vec![b'+', byte], vec![b'%', byte, b'~'], vec![b'(', byte, b')'], vec![b'#', byte]]
        {
            let _ = User::new(b"u").with([&word[..]], Reading::Typed);
        }
    }
}

struct Table {
    node: Node,
    access: Access,
    woken: Arc<AtomicU64>,
}

impl Table {
    fn new(provided: change::Provided) -> Table {
        let woken = Arc::new(AtomicU64::new(0));
        let wakes = woken.clone();
        let wake = move || {
            wakes.fetch_add(1, Ordering::Relaxed);
        };
        Table { node: Node::new(), access: Access::new(provided, Box::new(wake)), woken }
    }

    fn run(&self, args: &[u8]) -> Vec<u8> {
        let at = self.node.procedures().iter().position(|name| *name == ChangeUsers::NAME).unwrap();
        let (outcome, reply) = self.node.run(ProcedureId(at as u16), args);
        assert_eq!(outcome, Outcome::Committed);
        reply
    }

    fn set(&self, command: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let parts: Vec<&[u8]> = words(command).collect();
        Args::encode(parts.into_iter(), &mut bytes);
        let mut args = Vec::new();
        change::set(Args::decode(&mut Reader::new(&bytes)).unwrap(), &mut args).unwrap();
        self.run(&args)
    }

    fn delete(&self, names: &str) -> Vec<u8> {
        let (mut bytes, mut args) = (Vec::new(), Vec::new());
        let parts: Vec<&[u8]> = words(names).collect();
        Args::encode(parts.into_iter(), &mut bytes);
        change::delete(Args::decode(&mut Reader::new(&bytes)).unwrap(), &mut args);
        self.run(&args)
    }

    fn read(&self) -> Vec<u8> {
        let mut args = Vec::new();
        change::read(self.access.changes(), &mut args);
        self.run(&args)
    }

    fn provide(&self) -> Vec<u8> {
        let mut args = Vec::new();
        change::provide(self.access.changes(), self.access.provided(), &mut args);
        self.run(&args)
    }

    fn install(&self, reply: &[u8]) {
        self.access.install(&News::decode(reply).unwrap());
    }

    fn names(&self) -> Vec<String> {
        let users = self.access.users();
        users.iter().map(|user| String::from_utf8(user.name().to_vec()).unwrap()).collect()
    }
}

/// Changes are released by several workers, and readings come between: whatever their order, the end is the same.
#[test]
fn the_order_of_arrival_does_not_matter() {
    let orders: [[usize; 5]; 6] = [
        [0, 1, 2, 3, 4],
        [4, 3, 2, 1, 0],
        [2, 4, 0, 3, 1],
        [3, 0, 4, 1, 2],
        [1, 3, 2, 0, 4],
        [0, 4, 1, 3, 2],
    ];
    for order in orders {
        let table = Table::new(Vec::new());
        table.install(&table.read());
        let one = table.set("a on");
        let two = table.set("b on");
        let between = table.read();
        let three = table.delete("a");
        let four = table.set("a off");
        let news = [one, two, between, three, four];
        order.iter().for_each(|at| table.install(&news[*at]));
        assert_eq!(table.names(), ["a", "b", "default"], "{order:?}");
        assert!(!table.access.user(b"a").unwrap().flags().contains(&"on"), "{order:?}");
        assert_eq!(table.access.changes(), 4, "{order:?}");
        // What was complete is not taken back by what was read before.
        table.install(&news[2]);
        assert!(!table.access.user(b"a").unwrap().flags().contains(&"on"), "{order:?}");
    }
}

/// Simulated seed 84001947: `ACL DELUSER` of nobody told the number of a change that another worker released later. That one counted as known, and a
/// user kept a right on its leader that was taken away.
#[test]
fn whoever_changed_nothing_tells_of_no_change() {
    let table = Table::new(Vec::new());
    table.install(&table.read());
    table.install(&table.set("a on"));
    let (gone, nobody, refused) = (table.set("a off"), table.delete("b"), table.set("a nonsense"));
    for nothing in [nobody, refused] {
        assert_eq!(News::decode(&nothing).unwrap().changes, News::decode(&gone).unwrap().changes);
        table.install(&nothing);
        assert!(table.access.user(b"a").unwrap().flags().contains(&"on"));
    }
    table.install(&gone);
    assert!(!table.access.user(b"a").unwrap().flags().contains(&"on"), "the right is gone");
    assert_eq!(table.access.changes(), 2);
}

/// Simulated seed 87001742: who deleted a user left before the answer, and who was told that there is no such user saw it write, until the table was read.
#[test]
fn whoever_is_told_that_there_was_nothing_to_change_is_not_contradicted() {
    let table = Table::new(Vec::new());
    table.install(&table.read());
    table.install(&table.set("a on"));
    assert!(table.access.has_confirmation(0));
    table.delete("a");
    table.install(&table.delete("a"));
    assert!(
        !table.access.has_confirmation(0) && table.access.lacks_confirmation(),
        "the table is read first"
    );
    let confirmation = table.access.begin_confirmation();
    table.install(&table.read());
    table.access.confirm(confirmation);
    assert!(table.access.has_confirmation(0) && table.access.user(b"a").is_none());
    // What was heard of already is no reason to wait.
    table.install(&table.delete("a"));
    assert!(table.access.has_confirmation(0));
}

#[test]
fn a_reading_finds_what_nobody_told() {
    let table = Table::new(Vec::new());
    assert!(!table.access.is_known());
    table.set("a on");
    table.install(&table.set("b on"));
    assert!(!table.access.is_known(), "a change alone does not make the rest known");
    table.install(&table.read());
    assert!(table.access.is_known());
    assert_eq!(table.names(), ["a", "b", "default"]);
    table.delete("a");
    let before = table.woken.load(Ordering::Relaxed);
    table.install(&table.read());
    assert_eq!(table.names(), ["b", "default"]);
    assert_eq!(table.woken.load(Ordering::Relaxed), before + 1);
    // Nothing new: nothing is read again, and nobody is woken.
    assert!(!News::decode(&table.read()).unwrap().whole);
}

#[test]
fn a_configuration_gives_each_user_once() {
    let provided = file::parse("# ours\nuser alice on >pw ~* +@all\n\nuser bob on nopass\n").unwrap();
    let provided = file::with_password(provided, "secret").unwrap();
    let table = Table::new(provided);
    // Before the table is known, and while no node has put them there, they are this node's.
    assert_eq!(table.names(), ["alice", "bob", "default"]);
    assert!(!table.access.default_user().is_open());
    table.install(&table.read());
    assert_eq!(table.names(), ["alice", "bob", "default"]);
    table.set("bob on >other");
    table.install(&table.provide());
    let bob = table.access.user(b"bob").unwrap();
    assert!(!bob.is_open(), "one who is there is not replaced");
    // Once given and deleted, it does not come back.
    table.install(&table.delete("alice"));
    table.install(&table.provide());
    assert_eq!(table.names(), ["bob", "default"]);
    let again = Table { node: table.node.clone(), ..Table::new(table.access.provided().clone()) };
    again.install(&again.provide());
    assert_eq!(again.names(), ["bob", "default"]);
    for (text, why) in [
        ("alice on", "line 1 must begin"),
        ("\nuser", "line 2 has no name"),
        ("user a on\nuser a off", "duplicate"),
        ("user a ~*\nuser b +nothing", "line 2: ERR Error in ACL SETUSER modifier '+nothing'"),
    ] {
        assert!(file::parse(text).unwrap_err().contains(why), "{text}");
    }
}

#[test]
fn callers_follow_their_users() {
    let table = Table::new(Vec::new());
    table.install(&table.read());
    table.install(&table.set("alice on >pw +@all"));
    let mut caller = Caller::new(&table.access);
    assert!(!caller.needs_authentication());
    assert!(!caller.authenticate(&table.access, b"alice", b"no"));
    assert_eq!(caller.user().name(), b"default");
    assert!(caller.authenticate(&table.access, b"alice", b"pw"));
    // A password that is another now, or a user that is off, ends nothing, as in Redis.
    table.install(&table.set("alice off resetpass"));
    assert_eq!(caller.look(&table.access), Standing::There);
    assert!(!caller.needs_authentication());
    table.install(&table.delete("alice"));
    assert!(caller.is_behind(&table.access));
    assert_eq!(caller.look(&table.access), Standing::Deleted);
}

/// A node that has just started lets in by its configuration; the table has the last word.
#[test]
fn who_came_before_the_table_was_read_is_looked_at_again() {
    let provided = file::parse("user alice on >old ~* +@all\nuser bob on >pw ~* +@all").unwrap();
    let provided = file::with_password(provided, "secret").unwrap();
    let table = Table::new(provided);
    let mut callers = [(); 3].map(|()| Caller::new(&table.access));
    assert!(callers[0].authenticate(&table.access, b"alice", b"old"));
    assert!(callers[1].authenticate(&table.access, b"bob", b"pw"));
    table.provide();
    table.set("alice resetpass >new");
    table.install(&table.read());
    callers.iter_mut().for_each(|caller| assert_eq!(caller.look(&table.access), Standing::There));
    let strangers = callers.each_ref().map(Caller::needs_authentication);
    assert_eq!(strangers, [true, false, true]);
}

#[test]
fn ten_thousand_users_come_and_go() {
    let table = Table::new(Vec::new());
    table.install(&table.read());
    // As many as the limit of one reading lets be, in a map that is copied for each change: some by hand, the rest by rows.
    for at in 0..10_000u32 {
        let name = format!("user-{at:05}");
        let rows = user("on >pw ~x:* +get");
        table.node.put(super::USERS, &row::key(row::USER, name.as_bytes()), &row::encode(&rows));
    }
    let count = row::Count { changes: 10_000, users: 10_000, bytes: 1_000_000 };
    table.node.put(super::USERS, row::COUNT, &count.encode());
    table.install(&table.read());
    assert_eq!(table.names().len(), 10_001);
    let mut caller = Caller::new(&table.access);
    assert!(caller.authenticate(&table.access, b"user-09999", b"pw"));
    table.install(&table.delete("user-09999 user-00000"));
    assert_eq!(table.names().len(), 9_999);
    assert_eq!(caller.look(&table.access), Standing::Deleted);
    // One too many.
    let count = row::Count { changes: 10_001, users: super::MAX_USERS, bytes: 1_000_000 };
    table.node.put(super::USERS, row::COUNT, &count.encode());
    let refused = table.set("another on");
    assert!(News::decode(&refused).unwrap().told.starts_with(b"-ERR too many users"));
    assert_eq!(News::decode(&table.set("user-00001 off")).unwrap().told, b"+OK\r\n");
}
