//! Lists and small collections, wherever their elements stand: in the key's row, in rows of their own, or as an older build left them.

use std::collections::{BTreeMap, VecDeque};

use highwater_core::ProcedureId;
use highwater_core::random::Random;

use super::double::{Client, Node};
use crate::keyspace::head::{Head, Kind};
use crate::keyspace::list::END_BYTES;
use crate::keyspace::{DUE, ELEMENTS, ITEMS, KEYSPACE, NAMES, rows};
use crate::moment::Moment;

fn bulks(items: impl ExactSizeIterator<Item = impl AsRef<str>>) -> String {
    let mut said = format!("*{}\r\n", items.len());
    items.for_each(|item| said += &bulk(item.as_ref()));
    said
}

fn bulk(item: &str) -> String {
    format!("${}\r\n{item}\r\n", item.len())
}

fn words(items: &[String]) -> String {
    items.join(" ")
}

/// One of a few, so that some are alike; now and then a long one.
fn draw(random: &mut Random) -> String {
    let letter = char::from(b'a' + random.below(5) as u8);
    let most = [8, 8, 8, 90, 400][random.below(5) as usize];
    String::from(letter).repeat(1 + random.below(most) as usize)
}

/// Whatever is done to a list called `l` and to a deque, both answer the same.
fn plays_like_a_deque(client: &mut Client, mut deque: VecDeque<String>, seed: u64, turns: u32) {
    let mut random = Random::new(seed);
    for turn in 0..turns {
        let (item, other) = (draw(&mut random), draw(&mut random));
        let left = random.below(2) == 0;
        let index = random.below(deque.len() as u64 + 2) as i64 - 1;
        let (asked, wanted) = match random.below(14) {
            0..4 => {
                let items: Vec<String> = (0..1 + random.below(4)).map(|_| draw(&mut random)).collect();
                for item in items.iter().cloned() {
                    if left { deque.push_front(item) } else { deque.push_back(item) }
                }
                let name = if left { "LPUSH" } else { "RPUSH" };
                (format!("{name} l {}", words(&items)), format!(":{}\r\n", deque.len()))
            }
            4..6 => {
                let popped = if left { deque.pop_front() } else { deque.pop_back() };
                let wanted = popped.map_or("$-1\r\n".into(), |item| bulk(&item));
                (format!("{} l", if left { "LPOP" } else { "RPOP" }), wanted)
            }
            6 if !deque.is_empty() => {
                let count = random.below(20).min(deque.len() as u64) as usize;
                let popped: Vec<String> = match left {
                    true => deque.drain(..count).collect(),
                    false => deque.split_off(deque.len() - count).into_iter().rev().collect(),
                };
                (format!("{} l {count}", if left { "LPOP" } else { "RPOP" }), bulks(popped.iter()))
            }
            7 if !deque.is_empty() => {
                let at = if index < 0 { deque.len() as i64 - 1 } else { index } as usize;
                let wanted = match deque.get_mut(at) {
                    Some(place) => {
                        place.clone_from(&item);
                        "+OK\r\n"
                    }
                    None => "-ERR index out of range\r\n",
                };
                (format!("LSET l {index} {item}"), wanted.into())
            }
            8 => {
                let found = deque.iter().position(|there| *there == other);
                let wanted = match found {
                    Some(at) => {
                        deque.insert(at + usize::from(!left), item.clone());
                        deque.len() as i64
                    }
                    None if deque.is_empty() => 0,
                    None => -1,
                };
                let side = if left { "BEFORE" } else { "AFTER" };
                (format!("LINSERT l {side} {other} {item}"), format!(":{wanted}\r\n"))
            }
            9 => {
                let count = random.below(5) as i64 - 2;
                let before = deque.len();
                remove(&mut deque, count, &item);
                (format!("LREM l {count} {item}"), format!(":{}\r\n", before - deque.len()))
            }
            10 => {
                let from = random.below(4).min(deque.len() as u64) as usize;
                let upto = deque.len().saturating_sub(random.below(5) as usize);
                deque.truncate(upto);
                deque.drain(..from.min(upto));
                let kept = if upto == 0 { "1 0".into() } else { format!("{from} {}", upto - 1) };
                (format!("LTRIM l {kept}"), "+OK\r\n".into())
            }
            11 => {
                let at = if index < 0 { deque.len() as i64 + index } else { index };
                let wanted = usize::try_from(at).ok().and_then(|at| deque.get(at));
                (format!("LINDEX l {index}"), wanted.map_or("$-1\r\n".into(), |item| bulk(item)))
            }
            12 if !deque.is_empty() => {
                let moved = if left { deque.pop_front() } else { deque.pop_back() }.unwrap();
                deque.push_front(moved.clone());
                let from = if left { "LEFT" } else { "RIGHT" };
                (format!("LMOVE l l {from} LEFT"), bulk(&moved))
            }
            _ => {
                let behind: Vec<String> = (0..deque.len())
                    .rev()
                    .filter(|at| deque[*at] == item)
                    .map(|at| format!(":{at}\r\n"))
                    .collect();
                let wanted = format!("*{}\r\n{}", behind.len(), behind.concat());
                (format!("LPOS l {item} RANK -1 COUNT 0"), wanted)
            }
        };
        assert_eq!(client.ask(&asked), wanted, "turn {turn}: {asked}");
        let from = random.below(deque.len() as u64 + 1) as usize;
        let some: Vec<&String> = deque.iter().skip(from).take(30).collect();
        assert_eq!(
            client.ask(&format!("LRANGE l {from} {}", from + 29)),
            bulks(some.iter()),
            "turn {turn}: after {asked}"
        );
    }
    assert_eq!(client.ask("LRANGE l 0 -1"), bulks(deque.iter()));
    assert_eq!(client.ask("COPY l other"), format!(":{}\r\n", u8::from(!deque.is_empty())));
    assert_eq!(client.ask("LRANGE other 0 -1"), bulks(deque.iter()));
    client.ask("DEL l other");
    nothing_is_left(&client.node);
}

fn remove(deque: &mut VecDeque<String>, count: i64, item: &String) {
    let mut left = if count == 0 { u64::MAX } else { count.unsigned_abs() };
    let mut keep = |there: &String| {
        let goes = there == item && left > 0;
        left -= u64::from(goes);
        !goes
    };
    if count >= 0 {
        deque.retain(keep);
    } else {
        let mut kept: VecDeque<String> = VecDeque::new();
        deque.iter().rev().filter(|there| keep(there)).for_each(|there| kept.push_front(there.clone()));
        *deque = kept;
    }
}

/// Whatever the sweep has to remove is removed, and then there is no row.
fn nothing_is_left(node: &Node) {
    let at = node.procedures().iter().position(|name| *name == "redis.sweep").unwrap();
    while node.run(ProcedureId(at as u16), &Moment { unix_ms: 1, seed: 0 }.bytes()).1[..8] == [0; 8] {}
    assert_eq!([KEYSPACE, NAMES, ELEMENTS, ITEMS, DUE].map(|table| node.rows(table)), [0; 5]);
}

#[test]
fn a_list_is_a_deque() {
    for seed in 0..12 {
        plays_like_a_deque(&mut Node::new().client(), VecDeque::new(), seed, 250);
    }
}

/// A list of a build that had a row for each item is read and changed as it is.
#[test]
fn a_list_of_an_older_build_is_a_deque() {
    for seed in 0..6 {
        let (node, count, next) = (Node::new(), 40 * seed, -7);
        let mut deque = VecDeque::new();
        if count > 0 {
            let mut row = Vec::new();
            let head = Head { kind: Kind::List, id: 77, count, next, ..Head::string() };
            head.encode(&[], &mut row);
            node.put(KEYSPACE, b"l", &row);
            node.put(NAMES, &rows::name_row(b"l"), &[]);
        }
        for at in 0..count {
            let item = format!("old{at}");
            node.put(ELEMENTS, &rows::item_row(77, false, next + at as i64), item.as_bytes());
            deque.push_back(item);
        }
        let mut client = node.client();
        client.ask("LPUSH l first");
        deque.push_front("first".into());
        assert_eq!(node.rows(ELEMENTS) as u64, if count == 0 { 0 } else { count + 1 });
        plays_like_a_deque(&mut client, deque, seed, 150);
    }
}

#[test]
fn a_short_list_is_one_row_and_a_long_one_a_row_for_many_items() {
    let node = Node::new();
    let mut client = node.client();
    (0..60).for_each(|_| drop(client.ask("RPUSH l xxx")));
    assert_eq!([KEYSPACE, ITEMS, ELEMENTS].map(|table| node.rows(table)), [1, 0, 0]);
    (0..940).for_each(|_| drop(client.ask("RPUSH l xxx")));
    assert_eq!(node.rows(ITEMS), (1000 * 4 - 1) / END_BYTES);
    // A queue: what is pushed at one end and popped at the other.
    for _ in 0..1500 {
        assert_eq!(client.ask("RPOP l"), bulk("xxx"));
        client.ask("LPUSH l xxx");
    }
    assert_eq!(client.ask("LLEN l"), ":1000\r\n");
    assert!(node.rows(ITEMS) <= 1000 * 4 / END_BYTES + 1, "{}", node.rows(ITEMS));
    client.ask("LTRIM l 500 502");
    assert_eq!([KEYSPACE, ITEMS, ELEMENTS].map(|table| node.rows(table)), [1, 0, 0]);
    client.ask("DEL l");
    nothing_is_left(&node);
}

#[test]
fn the_items_of_a_long_list_are_swept() {
    let node = Node::new();
    let mut client = node.client();
    let items = vec![String::from("item-of-some-length"); 2000];
    for chunk in items.chunks(500) {
        client.ask(&format!("RPUSH l {}", words(chunk)));
    }
    let before = node.rows(ITEMS);
    assert!(before > 100);
    client.ask("SET l string");
    assert!((1..before).contains(&node.rows(ITEMS)), "a part goes at once, and the sweep has the rest");
    client.ask("DEL l");
    nothing_is_left(&node);
}

#[test]
fn a_small_collection_is_one_row_until_it_grows() {
    for (add, more) in [("SADD c", ""), ("HSET c", " value"), ("ZADD c 1", "")] {
        let node = Node::new();
        let mut client = node.client();
        for at in 0..32 {
            client.ask(&format!("{add} m{at}{more}"));
        }
        assert_eq!([KEYSPACE, ELEMENTS].map(|table| node.rows(table)), [1, 0], "{add}");
        client.ask("RENAME c d");
        client.ask("COPY d c");
        client.ask(&format!("{add} m32{more}"));
        let each = if add.starts_with('Z') { 2 } else { 1 };
        assert_eq!([KEYSPACE, ELEMENTS].map(|table| node.rows(table)), [2, 33 * each], "{add}");
        client.ask("PEXPIRE d 100000");
        client.ask(&format!("{add} m0{more}").replace(" c", " d"));
        assert_eq!(node.rows(DUE), 1);
        client.ask("DEL c d");
        nothing_is_left(&node);
        // One that is long is enough.
        client.ask(&format!("{add} {}{more}", "x".repeat(600)));
        assert_eq!([KEYSPACE, ELEMENTS].map(|table| node.rows(table)), [1, each], "{add}");
        client.ask("DEL c");
        nothing_is_left(&node);
    }
}

/// The members of a sorted set, in their order.
fn in_order(model: &BTreeMap<String, i64>) -> Vec<(i64, String)> {
    let mut order: Vec<(i64, String)> =
        model.iter().map(|(member, score)| (*score, member.clone())).collect();
    order.sort();
    order
}

/// Back and forth over the size up to which all stands in one row.
#[test]
fn sets_hashes_and_sorted_sets_do_not_tell_where_their_elements_stand() {
    for seed in 0..8 {
        let node = Node::new();
        let (mut client, mut random) = (node.client(), Random::new(seed));
        let mut model: BTreeMap<String, i64> = BTreeMap::new();
        for _ in 0..400 {
            let (member, score) = (format!("m{}", random.below(45)), random.below(9) as i64 - 4);
            let old = model.get(&member).copied();
            // Mostly more, then mostly less.
            let adds = random.below(10) < if model.len() > 38 { 2 } else { 7 };
            let count = if adds { u8::from(old.is_none()) } else { u8::from(old.is_some()) };
            let wanted = format!(":{count}\r\n");
            if adds {
                model.insert(member.clone(), score);
                assert_eq!(client.ask(&format!("SADD s {member}")), wanted);
                assert_eq!(client.ask(&format!("HSET h {member} {score}")), wanted);
                assert_eq!(client.ask(&format!("ZADD z {score} {member}")), wanted);
            } else {
                model.remove(&member);
                assert_eq!(client.ask(&format!("SREM s {member}")), wanted);
                assert_eq!(client.ask(&format!("HDEL h {member}")), wanted);
                assert_eq!(client.ask(&format!("ZREM z {member}")), wanted);
            }
            let count = format!(":{}\r\n", model.len());
            for card in ["SCARD s", "HLEN h", "ZCARD z"] {
                assert_eq!(client.ask(card), count);
            }
            let value = model.get(&member).map_or("$-1\r\n".into(), |score| bulk(&score.to_string()));
            assert_eq!(client.ask(&format!("HGET h {member}")), value);
            assert_eq!(client.ask(&format!("ZSCORE z {member}")), value);
            let order = in_order(&model);
            let low: Vec<&String> =
                order.iter().filter(|(at, _)| *at >= score).map(|(_, name)| name).collect();
            assert_eq!(client.ask(&format!("ZRANGE z {score} +inf BYSCORE")), bulks(low.iter()));
            let high: Vec<&String> =
                order.iter().rev().filter(|(at, _)| *at <= score).map(|(_, name)| name).collect();
            assert_eq!(client.ask(&format!("ZRANGE z {score} -inf BYSCORE REV")), bulks(high.iter()));
            let three: Vec<&String> = order.iter().take(3).map(|(_, name)| name).collect();
            assert_eq!(client.ask("ZRANGE z 0 2"), bulks(three.iter()));
        }
        client.ask("SINTERSTORE both s z");
        client.ask("SINTERSTORE both s s");
        assert_eq!(client.ask("SCARD both"), format!(":{}\r\n", model.len()));
        assert_eq!(client.ask("ZUNIONSTORE all 2 z s WEIGHTS 0 0"), format!(":{}\r\n", model.len()));
        client.ask("DEL s h z both all");
        nothing_is_left(&node);
    }
}

/// A result that cannot fit is refused before it is done, and not when the limit is met: others wait meanwhile.
#[test]
fn a_result_that_cannot_fit_is_refused_at_once() {
    const MEMBERS: u64 = 2_000;
    for (command, most, done) in [
        // Two rows for each member of a sorted set, each of which counts four.
        ("ZUNIONSTORE out 2 za zb", 19_000, 0),
        ("ZDIFFSTORE out 1 za", 17_000, MEMBERS),
        ("ZRANGESTORE out za 0 -1", 17_000, MEMBERS),
        ("COPY za out", 17_000, 0),
        ("SUNIONSTORE out sa", 8_900, MEMBERS),
        ("COPY sa out", 8_900, 0),
    ] {
        let node = Node::new();
        let mut client = node.client();
        for key in ["za", "zb"] {
            let members: Vec<String> = (0..MEMBERS).map(|n| format!("{n} m{n}")).collect();
            client.ask(&format!("ZADD {key} {}", words(&members)));
        }
        let members: Vec<String> = (0..MEMBERS).map(|n| format!("m{n}")).collect();
        client.ask(&format!("SADD sa {}", words(&members)));

        node.map.borrow_mut().work.set_most(most);
        assert_eq!(client.ask(command), "-ERR too large: the limits; nothing was done\r\n", "{command}");
        let passed = node.map.borrow().work.rows();
        assert!(passed <= done + 50, "{command}: refused after {passed} rows");
        assert_eq!(client.ask("EXISTS out"), ":0\r\n");

        // Where there is room for it, it is done.
        node.map.borrow_mut().work.set_most(2 * most);
        assert!(client.ask(command).starts_with(':'), "{command}");
    }
}
