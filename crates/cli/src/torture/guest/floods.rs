//! Pipelines of up to 100,000 commands, and clients that close their sending side: every reply must come, in order.

use std::io;
use std::net::Shutdown;
use std::thread;
use std::time::Duration;

use super::job::{Job, log_uniform};
use crate::wire::{Refusal, Reply, Wire};

/// How long one reply may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Commands of one pipeline.
const MOST: u64 = 100_000;
/// Of those whose replies are long and are not read meanwhile: the sockets must hold the commands.
const MOST_LONG: u64 = 20_000;
/// Where each command waits for the one before, so many fewer: they take as long.
const FEWER: u64 = 20;
/// Length of the long replies.
const LONG: usize = 1000;

/// What a pipeline is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mix {
    Increments,
    ShortReads,
    LongReads,
    Writes,
}

/// How it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// Replies are read while commands are sent.
    AtOnce,
    /// All commands are sent before the first reply is read, as redis-py does.
    SendsAllFirst,
    /// The same, and then the sending side is closed.
    HalfClose,
}

/// Pipelines until time is up, one at least of each kind.
pub fn pipelines(job: &mut Job) {
    for manner in [Manner::AtOnce, Manner::SendsAllFirst] {
        for mix in [Mix::Increments, Mix::ShortReads, Mix::LongReads, Mix::Writes] {
            let count = match mix {
                // As many as it takes to fill the sockets on the way back.
                Mix::LongReads => most(job, MOST_LONG),
                _ => draw(job, 1000, MOST),
            };
            one(job, mix, manner, count);
        }
    }
    while !job.over() {
        let mix = [Mix::Increments, Mix::ShortReads, Mix::Writes][job.rng.below(3) as usize];
        let manner = if job.rng.percent(50) { Manner::AtOnce } else { Manner::SendsAllFirst };
        let count = draw(job, 1000, MOST);
        one(job, mix, manner, count);
    }
}

/// So many commands, or fewer.
fn most(job: &Job, commands: u64) -> u64 {
    if job.pipelines_overlap() { commands } else { commands / FEWER }
}

fn draw(job: &mut Job, from: u64, to: u64) -> u64 {
    let (from, to) = (most(job, from).max(1), most(job, to));
    log_uniform(&mut job.rng, from, to)
}

/// Half-closes until time is up, a few at least.
pub fn half_closes(job: &mut Job) {
    for round in 0.. {
        if round >= 4 && job.over() {
            return;
        }
        let mix = [Mix::LongReads, Mix::Increments, Mix::ShortReads, Mix::Writes][round % 4];
        let count = if round == 0 { most(job, MOST_LONG) } else { draw(job, 1, MOST_LONG) };
        one(job, mix, Manner::HalfClose, count);
    }
}

fn one(job: &mut Job, mix: Mix, manner: Manner, count: u64) {
    let mut caller = job.caller();
    let (counter, value) = (job.key("counter"), job.key("value"));
    let known = caller.insist(&[b"SET", &counter, b"0"]).is_some()
        && caller
            .insist(&[b"SET", &value, &vec![b'x'; if mix == Mix::LongReads { LONG } else { 3 }]])
            .is_some();
    let Some(wire) = known.then(|| caller.leader()).flatten() else {
        return job.complain("nobody leads for a minute".into());
    };
    let words: [&[u8]; 3] = match mix {
        Mix::Increments => [b"INCR", &counter, b""],
        Mix::ShortReads | Mix::LongReads => [b"GET", &value, b""],
        Mix::Writes => [b"SET", &value, b"written again, and again, and again"],
    };
    let words = if mix == Mix::Writes { &words[..] } else { &words[..2] };
    let (replies, broke) = exchange(wire, words, manner, count);
    let name = match manner {
        Manner::AtOnce => "pipelines read meanwhile",
        Manner::SendsAllFirst => "pipelines sent before the first reply is read",
        Manner::HalfClose => "half-closes",
    };
    job.count(name, 1);
    job.count("commands in pipelines", count);
    judge(job, mix, manner, count, &replies, broke.as_ref());
}

/// What came back, and what ended it too early.
fn exchange(mut wire: Wire, words: &[&[u8]], manner: Manner, count: u64) -> (Vec<Reply>, Option<io::Error>) {
    let mut replies = Vec::with_capacity(count as usize);
    let mut outcome = || -> io::Result<()> {
        wire.be_patient(PATIENCE)?;
        let mut sender = wire.sender()?;
        let mut send = move || -> io::Result<()> {
            let command = Wire::encode(words);
            let batch = command.repeat(1000.min(count) as usize);
            let mut left = count;
            while left > 0 {
                let n = left.min(1000);
                io::Write::write_all(&mut sender, &batch[..command.len() * n as usize])?;
                left -= n;
            }
            if manner == Manner::HalfClose { sender.shutdown(Shutdown::Write) } else { Ok(()) }
        };
        thread::scope(|scope| {
            let sending = if manner == Manner::AtOnce {
                Some(scope.spawn(send))
            } else {
                send()?;
                None
            };
            while (replies.len() as u64) < count {
                replies.push(wire.reply()?);
            }
            if manner == Manner::HalfClose {
                // And then the end, not more.
                match wire.reply() {
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
                    Err(error) => return Err(error),
                    Ok(reply) => replies.push(reply),
                }
            }
            sending.map_or(Ok(()), |sending| sending.join().expect("sending does not panic"))
        })
    };
    let broke = outcome().err();
    (replies, broke)
}

fn judge(job: &mut Job, mix: Mix, manner: Manner, count: u64, replies: &[Reply], broke: Option<&io::Error>) {
    let got = replies.len() as u64;
    let refused = replies.iter().filter_map(|reply| match reply {
        Reply::Error(text) => Some(text),
        _ => None,
    });
    let mut refusals = 0;
    for text in refused {
        if let Refusal::Strange(text) = Refusal::of(text) {
            return job.complain(format!("{mix:?}, {manner:?}: {text}"));
        }
        refusals += 1;
    }
    job.count("commands refused in pipelines", refusals);
    if let Some(error) = broke {
        let silent = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
        // A connection may break with its replica; a replica that lives must answer.
        if silent {
            let seconds = PATIENCE.as_secs();
            return job.complain(format!(
                "{got} of {count} replies ({mix:?}, {manner:?}), then silence for {seconds} s"
            ));
        }
        return job.count("pipelines that broke with their replica", 1);
    }
    if got != count {
        return job.complain(format!("{got} replies to {count} commands ({mix:?}, {manner:?})"));
    }
    let increments = replies.iter().filter_map(|reply| match reply {
        Reply::Integer(n) => Some(*n),
        _ => None,
    });
    let increments: Vec<i64> = increments.collect();
    if mix == Mix::Increments && increments.windows(2).any(|pair| pair[1] <= pair[0]) {
        job.complain(format!("increments of a pipeline out of order ({manner:?})"));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// Answers `answered` of the commands with increments, then does as told.
    fn answer(answered: u64, hangs_up: bool) -> (Vec<Reply>, Option<io::Error>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let wire = Wire::connect(listener.local_addr().unwrap(), Duration::from_millis(300)).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let words: [&[u8]; 2] = [b"INCR", b"c"];
        let expected = Wire::encode(&words).len() * 5;
        let server = thread::spawn(move || {
            server.read_exact(&mut vec![0; expected]).unwrap();
            for n in 1..=answered {
                write!(server, ":{n}\r\n").unwrap();
            }
            (!hangs_up).then_some(server)
        });
        let answer = exchange(wire, &words, Manner::HalfClose, 5);
        drop(server.join());
        answer
    }

    #[test]
    fn replies_to_a_half_closed_client_are_counted_to_the_end() {
        let (replies, broke) = answer(5, true);
        assert_eq!((replies.len(), broke.is_none()), (5, true));
        let (replies, broke) = answer(6, true);
        assert_eq!((replies.len(), broke.is_none()), (6, true), "one too many");
        let (replies, broke) = answer(3, true);
        assert_eq!((replies.len(), broke.unwrap().kind()), (3, io::ErrorKind::UnexpectedEof));
    }
}
