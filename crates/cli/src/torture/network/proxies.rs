//! The proxy process, as the director sees it.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use highwater_workloads::random::Rng;

use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::torture::schedule::millis;

/// The process; it ends when dropped.
#[derive(Debug)]
pub struct Proxies {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// Where each link listens.
    pub listeners: Vec<SocketAddr>,
}

/// Slow links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    /// Of every byte.
    pub delay: Duration,
    /// More delay, at random.
    pub jitter: Duration,
    /// 0: as many as it takes.
    pub bytes_per_second: u64,
}

impl Weather {
    /// A longer road, one on which silence counts as death, or a narrow one.
    pub fn draw(rng: &mut Rng) -> Weather {
        match rng.below(3) {
            0 => Weather { delay: millis(rng, 1, 50), jitter: millis(rng, 0, 50), bytes_per_second: 0 },
            1 => Weather { delay: millis(rng, 80, 400), jitter: millis(rng, 0, 200), bytes_per_second: 0 },
            _ => Weather { bytes_per_second: rng.within(5_000, 300_000), ..Weather::default() },
        }
    }
}

impl fmt::Display for Weather {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Weather { delay, jitter, bytes_per_second } = *self;
        match bytes_per_second {
            0 => write!(f, "{} to {} ms of delay", delay.as_millis(), (delay + jitter).as_millis()),
            bytes => write!(f, "{bytes} bytes a second"),
        }
    }
}

impl Proxies {
    /// Starts the process with these links: where each listens (port 0: anywhere), and where it leads.
    pub fn start(links: &[(SocketAddr, SocketAddr)]) -> Result<Proxies> {
        let binary = std::env::current_exe().map_err(Failure::cannot_start)?;
        let mut command = Command::new(binary);
        command.arg("torture-proxy");
        for (listen, upstream) in links {
            command.arg("--link").arg(format!("{listen}={upstream}"));
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| Failure::cannot_start(format!("cannot start the proxy: {error}")))?;
        interrupt::started(child.id());
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut proxies = Proxies { child, orders, answers, listeners: Vec::new() };
        let line = proxies.answer()?;
        let parsed: std::result::Result<_, _> = line.split_whitespace().map(str::parse).collect();
        proxies.listeners = parsed.map_err(|_| Failure::cannot_start(format!("the proxy says {line:?}")))?;
        Ok(proxies)
    }

    /// Lets bytes pass in one direction (`there`: from who dials), or holds them back.
    pub fn flow(&mut self, link: usize, there: bool, passes: bool) -> Result<()> {
        let (direction, flow) = (if there { "there" } else { "back" }, if passes { "pass" } else { "stall" });
        self.order(&format!("flow {link} {direction} {flow}"))
    }

    /// Makes a link slow, or fast again.
    pub fn weather(&mut self, link: usize, weather: Weather) -> Result<()> {
        let Weather { delay, jitter, bytes_per_second } = weather;
        let (delay, jitter) = (delay.as_micros(), jitter.as_micros());
        self.order(&format!("weather {link} {delay} {jitter} {bytes_per_second}"))
    }

    /// Breaks all connections of a link.
    pub fn reset(&mut self, link: usize) -> Result<()> {
        self.order(&format!("reset {link}"))
    }

    /// One end of all connections of a link is gone (`near`: of who dialed), and the other one is not told.
    pub fn forget(&mut self, link: usize, near: bool) -> Result<()> {
        self.order(&format!("forget {link} {}", if near { "near" } else { "far" }))
    }

    fn order(&mut self, order: &str) -> Result<()> {
        let orders = self.orders.as_mut().expect("it is taken only when dropped");
        writeln!(orders, "{order}")
            .map_err(|error| Failure::negative(format!("the proxy is gone: {error}")))?;
        match self.answer()?.as_str() {
            "ok" => Ok(()),
            answer => Err(Failure::negative(format!("the proxy answers {answer:?} to {order:?}"))),
        }
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(1..) => Ok(line.trim_end().to_string()),
            _ => Err(Failure::negative("the proxy ended by itself")),
        }
    }
}

impl Drop for Proxies {
    fn drop(&mut self) {
        drop(self.orders.take());
        // It has nothing to lose; whether it is gone already does not matter.
        let _ = self.child.kill();
        let _ = self.child.wait();
        interrupt::ended(self.child.id());
    }
}
