//! A store that speaks S3 over loopback, and fails when it is told to.

#![allow(dead_code, reason = "each test uses a part")]

mod answers;
mod http;

use std::collections::BTreeMap;
use std::io::BufReader;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use http::{Answer, Request};

/// Whose requests are answered.
pub const KEY: &str = "drill";

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug)]
pub enum Wrong {
    /// It is answered with this status and code, and not done.
    Says(u16, &'static str),
    /// The connection ends before anything is done.
    Cut,
    /// It is done, and the connection ends before that is said.
    AnswerLost,
    /// Half of the answer's body, and the connection ends.
    BodyCut,
    /// The body comes in so many pieces, each of them late.
    Drips(usize),
}

/// Of which requests, and how often still.
#[derive(Clone, Debug)]
pub struct Fault {
    pub method: &'static str,
    /// A part of the path and query, as `path?name=value&..`.
    pub of: &'static str,
    pub times: usize,
    pub wrong: Wrong,
}

/// An object.
#[derive(Clone, Debug)]
pub struct Object {
    pub bytes: Arc<Vec<u8>>,
    pub tag: String,
}

/// What the store holds.
#[derive(Debug, Default)]
pub struct Held {
    /// By bucket and key, with a slash between.
    pub objects: BTreeMap<String, Object>,
    /// Parts of uploads that are not complete, by id.
    pub uploads: BTreeMap<String, BTreeMap<u32, Arc<Vec<u8>>>>,
    pub faults: Vec<Fault>,
    /// Conditions are not looked at.
    pub careless: bool,
    /// How many objects a listing shows at once.
    pub page: usize,
    /// Every request, `METHOD path?query`.
    pub asked: Vec<String>,
    versions: u64,
}

/// The store. Its bucket is called `bucket`.
pub struct S3 {
    port: u16,
    held: Arc<Mutex<Held>>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl S3 {
    pub fn start() -> S3 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let held = Arc::new(Mutex::new(Held { page: 1000, ..Held::default() }));
        let connections = Arc::new(Mutex::new(Vec::new()));
        let store = S3 { port, held: held.clone(), connections: connections.clone() };
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                connections.lock().unwrap().push(stream.try_clone().unwrap());
                let held = held.clone();
                // A client that goes away in the middle is no matter.
                thread::spawn(move || drop(serve(stream, &held)));
            }
        });
        store
    }

    /// What a client has in its environment.
    pub fn environment(&self) -> Vec<(String, String)> {
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        [
            ("AWS_ENDPOINT", endpoint.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", KEY),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_REGION", "eu-north-1"),
        ]
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .to_vec()
    }

    pub fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap()
    }

    /// The next requests of this kind go wrong.
    pub fn fail(&self, method: &'static str, of: &'static str, times: usize, wrong: Wrong) {
        self.held().faults.push(Fault { method, of, times, wrong });
    }

    /// Whether every fault has come about; there are none after that.
    pub fn all_failed(&self) -> bool {
        std::mem::take(&mut self.held().faults).iter().all(|fault| fault.times == 0)
    }

    /// The keys under a prefix.
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        self.held().objects.keys().filter(|key| key.starts_with(prefix)).cloned().collect()
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        for connection in self.connections.lock().unwrap().drain(..) {
            // It may have ended.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

fn serve(stream: TcpStream, held: &Mutex<Held>) -> std::io::Result<()> {
    let mut writes = stream.try_clone()?;
    let mut reads = BufReader::new(stream);
    while let Some(request) = Request::read(&mut reads)? {
        let fault = noted(&mut held.lock().unwrap(), &request);
        let answer = match fault {
            Some(Wrong::Says(status, code)) => Answer::error(status, code),
            Some(Wrong::Cut) => return writes.shutdown(Shutdown::Both),
            _ => answers::answer(&mut held.lock().unwrap(), &request),
        };
        let body: &[u8] = if request.method == "HEAD" { &[] } else { &answer.body };
        match fault {
            Some(Wrong::AnswerLost) => return writes.shutdown(Shutdown::Both),
            Some(Wrong::BodyCut) => {
                answer.write(&mut writes, &body[..body.len() / 2])?;
                return writes.shutdown(Shutdown::Both);
            }
            Some(Wrong::Drips(pieces)) => {
                answer.write(&mut writes, &[])?;
                for piece in body.chunks(body.len().div_ceil(pieces).max(1)) {
                    // That is what slow means.
                    thread::sleep(std::time::Duration::from_millis(20));
                    std::io::Write::write_all(&mut writes, piece)?;
                }
            }
            _ => answer.write(&mut writes, body)?,
        }
    }
    Ok(())
}

/// What is to go wrong with a request.
fn noted(held: &mut Held, request: &Request) -> Option<Wrong> {
    let query: Vec<String> = request.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let target = format!("{}?{}", request.path, query.join("&"));
    held.asked.push(format!("{} {target}", request.method));
    let wanted =
        |fault: &&mut Fault| fault.times > 0 && fault.method == request.method && target.contains(fault.of);
    let fault = held.faults.iter_mut().find(wanted)?;
    fault.times -= 1;
    Some(fault.wrong)
}
