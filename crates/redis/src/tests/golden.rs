//! Conversations, byte for byte: `golden/*.txt`. Those in `redis/` hold word for word with Redis 7.0.15, too.
//!
//! `> command` is typed by the first client, `2> command` by the second; the lines below are the reply, each ended by
//! CR LF; `(empty)` is one without text. `[resp3]` makes both clients speak RESP3 from there on; `#` starts a comment. Every file starts empty.

use super::double::Node;

fn check(story: &str) {
    let node = Node::new();
    let mut clients = [node.client(), node.client()];
    let (mut asked, mut got, mut wanted) = ("the start", String::new(), String::new());
    // One more command ends the last reply.
    for line in story.lines().chain(["> PING"]) {
        if line == "[resp3]" {
            clients.iter_mut().for_each(|client| drop(client.ask("HELLO 3")));
        } else if let Some((client, command)) = typed(line) {
            assert_eq!(got, wanted, "after {asked}");
            (asked, got, wanted) = (line, clients[client].ask(command), String::new());
        } else if !line.is_empty() && !line.starts_with('#') {
            wanted.push_str(if line == "(empty)" { "" } else { line });
            wanted.push_str("\r\n");
        }
    }
}

fn typed(line: &str) -> Option<(usize, &str)> {
    line.strip_prefix("> ")
        .map(|command| (0, command))
        .or(line.strip_prefix("2> ").map(|command| (1, command)))
}

macro_rules! stories {
    ($($name:ident: $file:literal),* $(,)?) => {$(
        #[test]
        fn $name() {
            check(include_str!(concat!("golden/", $file)));
        }
    )*};
}

stories! {
    strings: "redis/strings.txt",
    counters: "redis/counters.txt",
    keys: "redis/keys.txt",
    transactions: "redis/transactions.txt",
    watch: "redis/watch.txt",
    acl: "redis/acl.txt",
    connection: "redis/connection.txt",
    errors: "redis/errors.txt",
    strings_more: "redis/strings_more.txt",
    expiry: "redis/expiry.txt",
    hashes: "redis/hashes.txt",
    sets: "redis/sets.txt",
    lists: "redis/lists.txt",
    sorted_sets: "redis/zsets.txt",
    scripts: "redis/scripts.txt",
    our_own: "our_own.txt",
}
