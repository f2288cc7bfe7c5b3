//! Redis in small: what single commands do to keys with deadlines, one after another, each at a moment of its own.
//!
//! Written from what Redis promises, not from the product: values in one map, no rows, no sweep that has to find anything.

use std::collections::{BTreeMap, VecDeque};

/// What a key holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// Bytes.
    Text(String),
    /// A sequence.
    List(VecDeque<String>),
    /// Members with scores, in the order of these.
    Sorted(Vec<(u32, String)>),
}

/// All keys of one group: what each holds, and when it expires; 0 is never.
pub type State = BTreeMap<String, (Value, u64)>;

/// Which end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The first.
    Left,
    /// The last.
    Right,
}

/// A command that one engine request runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// `SET key value [PX ms]`
    Set(String, String, Option<u64>),
    /// `APPEND key value`
    Append(String, String),
    /// `GET key`
    Get(String),
    /// `PEXPIRE key ms`
    Expire(String, u64),
    /// `PERSIST key`
    Persist(String),
    /// `PTTL key`
    Pttl(String),
    /// `LPUSH key value`, `RPUSH key value`
    Push(String, End, String),
    /// `LRANGE key 0 -1`
    Range(String),
    /// `BLPOP key .. timeout`, `BRPOP key .. timeout`
    Pop(Vec<String>, End, u64),
    /// `BLMOVE from to LEFT|RIGHT LEFT|RIGHT timeout`
    Move(String, String, End, End, u64),
    /// `ZADD key score member`
    ZAdd(String, u32, String),
    /// `BZPOPMIN key timeout`
    ZPop(String, u64),
    /// `ZRANGE key 0 -1 WITHSCORES`
    ZRange(String),
    /// What the sweep does: everything goes whose deadline is past.
    Sweep,
}

impl Op {
    /// As a client types it.
    pub fn words(&self) -> Vec<String> {
        let end = |end: &End| if *end == End::Left { "LEFT" } else { "RIGHT" }.to_string();
        let words: Vec<&str> = match self {
            Op::Set(key, value, None) => vec!["SET", key, value],
            Op::Set(key, value, Some(ms)) => {
                return ["SET", key, value, "PX", &ms.to_string()].map(String::from).into();
            }
            Op::Append(key, value) => vec!["APPEND", key, value],
            Op::Get(key) => vec!["GET", key],
            Op::Expire(key, ms) => return ["PEXPIRE", key, &ms.to_string()].map(String::from).into(),
            Op::Persist(key) => vec!["PERSIST", key],
            Op::Pttl(key) => vec!["PTTL", key],
            Op::Push(key, End::Left, value) => vec!["LPUSH", key, value],
            Op::Push(key, End::Right, value) => vec!["RPUSH", key, value],
            Op::Range(key) => vec!["LRANGE", key, "0", "-1"],
            Op::Pop(keys, from, timeout) => {
                let name = if *from == End::Left { "BLPOP" } else { "BRPOP" };
                let keys = keys.iter().cloned();
                return std::iter::once(name.into()).chain(keys).chain([seconds(*timeout)]).collect();
            }
            Op::Move(from, to, out, into, timeout) => {
                return vec![
                    "BLMOVE".into(),
                    from.clone(),
                    to.clone(),
                    end(out),
                    end(into),
                    seconds(*timeout),
                ];
            }
            Op::ZAdd(key, score, member) => {
                return ["ZADD", key, &score.to_string(), member].map(String::from).into();
            }
            Op::ZPop(key, timeout) => return vec!["BZPOPMIN".into(), key.clone(), seconds(*timeout)],
            Op::ZRange(key) => vec!["ZRANGE", key, "0", "-1", "WITHSCORES"],
            Op::Sweep => unreachable!("no client types it"),
        };
        words.into_iter().map(String::from).collect()
    }

    /// If it waits for data: for what, and for how long, in ms; 0 is for ever.
    pub fn waits(&self) -> Option<(Vec<String>, u64)> {
        match self {
            Op::Pop(keys, _, timeout) => Some((keys.clone(), *timeout)),
            Op::Move(from, .., timeout) => Some((vec![from.clone()], *timeout)),
            Op::ZPop(key, timeout) => Some((vec![key.clone()], *timeout)),
            _ => None,
        }
    }

    /// Whether it changes something whatever it finds: its moment is its own.
    pub fn writes(&self) -> bool {
        matches!(self, Op::Set(..) | Op::Append(..) | Op::Push(..) | Op::ZAdd(..))
    }

    /// Whether it changed something, by its reply.
    pub fn changed(&self, reply: &str) -> bool {
        match self {
            Op::Get(_) | Op::Pttl(_) | Op::Range(_) | Op::ZRange(_) => false,
            Op::Expire(..) | Op::Persist(_) => reply != ":0\r\n",
            Op::Pop(..) | Op::Move(..) | Op::ZPop(..) => !matches!(reply, "$-1\r\n" | "*-1\r\n" | "_\r\n"),
            Op::Set(..) | Op::Append(..) | Op::Push(..) | Op::ZAdd(..) | Op::Sweep => true,
        }
    }

    /// Whether both look at one key. The sweep looks at none that a client names.
    pub fn shares_key_with(&self, other: &Op) -> bool {
        let none = State::new();
        let keys = other.keys(&none);
        self.keys(&none).iter().any(|key| keys.contains(key))
    }

    /// The group that it is about: what stands before the first colon of its keys. `None`: all.
    pub fn group(&self) -> Option<&str> {
        let key = match self {
            Op::Set(key, ..) | Op::Append(key, _) | Op::Get(key) | Op::Expire(key, _) | Op::Persist(key) => {
                key
            }
            Op::Pttl(key) | Op::Push(key, ..) | Op::Range(key) | Op::Move(key, ..) | Op::ZAdd(key, ..) => key,
            Op::ZPop(key, _) | Op::ZRange(key) => key,
            Op::Pop(keys, ..) => &keys[0],
            Op::Sweep => return None,
        };
        key.split(':').next()
    }

    /// Runs it at a moment, in ms; what Redis answers.
    pub fn run(&self, state: &mut State, now: u64) -> String {
        for key in self.keys(state) {
            if state.get(&key).is_some_and(|(_, deadline)| *deadline != 0 && *deadline <= now) {
                state.remove(&key);
            }
        }
        match self {
            Op::Set(key, value, ms) => {
                state.insert(key.clone(), (Value::Text(value.clone()), ms.map_or(0, |ms| now + ms)));
                "+OK\r\n".into()
            }
            Op::Append(key, more) => {
                let (value, _) = state.entry(key.clone()).or_insert((Value::Text(String::new()), 0));
                let Value::Text(text) = value else { unreachable!("keys keep their types") };
                text.push_str(more);
                format!(":{}\r\n", text.len())
            }
            Op::Get(key) => match state.get(key) {
                Some((Value::Text(text), _)) => bulk(text),
                _ => "$-1\r\n".into(),
            },
            Op::Expire(key, ms) => match state.get_mut(key) {
                Some((_, deadline)) => {
                    *deadline = now + ms;
                    ":1\r\n".into()
                }
                None => ":0\r\n".into(),
            },
            Op::Persist(key) => match state.get_mut(key) {
                Some((_, deadline)) if *deadline != 0 => {
                    *deadline = 0;
                    ":1\r\n".into()
                }
                _ => ":0\r\n".into(),
            },
            Op::Pttl(key) => match state.get(key) {
                Some((_, 0)) => ":-1\r\n".into(),
                Some((_, deadline)) => format!(":{}\r\n", deadline - now),
                None => ":-2\r\n".into(),
            },
            Op::Push(key, end, item) => format!(":{}\r\n", push(state, key, *end, item)),
            Op::Range(key) => match state.get(key) {
                Some((Value::List(items), _)) => array(items.iter()),
                _ => "*0\r\n".into(),
            },
            Op::Pop(keys, end, _) => {
                let found = keys.iter().find_map(|key| Some((key, pop(state, key, *end)?)));
                found.map_or("*-1\r\n".into(), |(key, item)| array([key, &item].into_iter()))
            }
            Op::Move(from, to, out, into, _) => match pop(state, from, *out) {
                Some(item) => {
                    push(state, to, *into, &item);
                    bulk(&item)
                }
                None => "$-1\r\n".into(),
            },
            Op::ZAdd(key, score, member) => {
                let (value, _) = state.entry(key.clone()).or_insert((Value::Sorted(Vec::new()), 0));
                let Value::Sorted(members) = value else { unreachable!("keys keep their types") };
                // A gift that nobody acknowledged is given again.
                let before = members.len();
                members.retain(|(_, other)| other != member);
                let added = members.len() == before;
                members.push((*score, member.clone()));
                members.sort();
                format!(":{}\r\n", u8::from(added))
            }
            Op::ZPop(key, _) => {
                let Some((Value::Sorted(members), _)) = state.get_mut(key) else { return "*-1\r\n".into() };
                let (score, member) = members.remove(0);
                if members.is_empty() {
                    state.remove(key);
                }
                array([key, &member, &score.to_string()].into_iter())
            }
            Op::ZRange(key) => match state.get(key) {
                Some((Value::Sorted(members), _)) => {
                    let words =
                        members.iter().flat_map(|(score, member)| [member.clone(), score.to_string()]);
                    array(words.collect::<Vec<_>>().iter())
                }
                _ => "*0\r\n".into(),
            },
            Op::Sweep => String::new(),
        }
    }

    /// The keys that it looks at.
    fn keys(&self, state: &State) -> Vec<String> {
        match self {
            Op::Sweep => state.keys().cloned().collect(),
            Op::Pop(keys, ..) => keys.clone(),
            Op::Move(from, to, ..) => vec![from.clone(), to.clone()],
            Op::Set(key, ..) | Op::Append(key, _) | Op::Get(key) | Op::Expire(key, _) | Op::Persist(key) => {
                vec![key.clone()]
            }
            Op::Pttl(key) | Op::Push(key, ..) | Op::Range(key) | Op::ZAdd(key, ..) => vec![key.clone()],
            Op::ZPop(key, _) | Op::ZRange(key) => vec![key.clone()],
        }
    }
}

fn seconds(ms: u64) -> String {
    (ms as f64 / 1000.0).to_string()
}

fn push(state: &mut State, key: &str, end: End, item: &str) -> usize {
    let (value, _) = state.entry(key.into()).or_insert((Value::List(VecDeque::new()), 0));
    let Value::List(items) = value else { unreachable!("keys keep their types") };
    match end {
        End::Left => items.push_front(item.into()),
        End::Right => items.push_back(item.into()),
    }
    items.len()
}

fn pop(state: &mut State, key: &str, end: End) -> Option<String> {
    let (Value::List(items), _) = state.get_mut(key)? else { unreachable!("keys keep their types") };
    let item = if end == End::Left { items.pop_front() } else { items.pop_back() };
    if items.is_empty() {
        state.remove(key);
    }
    item
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

fn array<'a>(words: impl ExactSizeIterator<Item = &'a String>) -> String {
    let count = words.len();
    words.fold(format!("*{count}\r\n"), |all, word| all + &bulk(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_to_their_end() {
        let (state, key) = (&mut State::new(), "k".to_string());
        assert_eq!(Op::Set(key.clone(), "v".into(), Some(10)).run(state, 100), "+OK\r\n");
        assert_eq!(Op::Pttl(key.clone()).run(state, 104), ":6\r\n");
        assert_eq!(Op::Append(key.clone(), "w".into()).run(state, 105), ":2\r\n");
        assert_eq!(Op::Get(key.clone()).run(state, 109), "$2\r\nvw\r\n");
        assert_eq!(Op::Get(key.clone()).run(state, 110), "$-1\r\n");
        assert_eq!(Op::Get(key.clone()).run(state, 50), "$-1\r\n", "what was seen to be gone stays gone");
        assert_eq!(Op::Push(key.clone(), End::Left, "x".into()).run(state, 50), ":1\r\n");
        assert_eq!(Op::Expire(key.clone(), 5).run(state, 50), ":1\r\n");
        Op::Sweep.run(state, 54);
        assert_eq!(Op::Persist(key.clone()).run(state, 54), ":1\r\n");
        assert_eq!(
            Op::Pop(vec!["a".into(), key], End::Right, 0).run(state, 99),
            "*2\r\n$1\r\nk\r\n$1\r\nx\r\n"
        );
        assert!(state.is_empty());
    }
}
