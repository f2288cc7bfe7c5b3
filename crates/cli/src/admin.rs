//! A conversation with one replica over its admin port.

use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use highwater_node::admin::protocol::{
    AdminRequest, AdminResponse, CheckReport, LoadReport, MemberRequest, MemberState, StatusReport,
    WorkloadSpec,
};

use crate::admin_stream::AdminStream;
use crate::failure::Failure;

/// How long a replica may take to accept a connection.
pub const DIAL: Duration = Duration::from_secs(2);
/// How long a replica may take to answer a question about its state.
const PROMPT: Duration = Duration::from_secs(10);
/// Ranges of one question about audit rows: a line has at most a MiB, a range 24 bytes.
const AUDIT_RANGES: usize = 20_000;
/// How long one that works (loads, stops, checks) may be silent.
const PATIENT: Duration = Duration::from_secs(180);

/// How long loading may stand still.
const STANDSTILL: Duration = Duration::from_secs(60);

/// Why a replica did not do what it was asked.
#[derive(Debug)]
pub enum AdminError {
    /// Nobody is there (any more).
    Gone(io::Error),
    /// It said nothing for so long.
    Silent(Duration),
    /// Its name has no address.
    Unknown(String),
    /// It is on its way from its files to a replica, so far.
    Starting(String),
    /// It answered no, and why.
    Refused(String),
    /// It answered something else.
    Confused(String),
}

impl fmt::Display for AdminError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdminError::Gone(error) => f.write_str(&in_words(error)),
            AdminError::Silent(patience) => write!(f, "no answer within {}", seconds(*patience)),
            AdminError::Unknown(host) => write!(f, "the name {host:?} has no address"),
            AdminError::Starting(doing) => write!(f, "it is starting: {doing}"),
            AdminError::Refused(message) => f.write_str(message),
            AdminError::Confused(answer) => {
                write!(
                    f,
                    "does not answer in the admin protocol: with tls.admin = true add --tls-ca FILE or --config FILE; is it an admin address \
                     (7300 by default)? ({answer})"
                )
            }
        }
    }
}

/// What an operating system's error means here.
fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "nothing listens there".into(),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => "no route leads there".into(),
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe => "it hung up".into(),
        _ => error.to_string(),
    }
}

fn seconds(patience: Duration) -> String {
    let ms = patience.as_millis();
    if ms.is_multiple_of(1000) { format!("{} s", ms / 1000) } else { format!("{ms} ms") }
}

/// Whether an error says that time ran out: sockets with a time limit say either.
fn timed_out(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

fn within(patience: Duration) -> impl Fn(io::Error) -> AdminError {
    move |error| if timed_out(&error) { AdminError::Silent(patience) } else { AdminError::Gone(error) }
}

impl From<io::Error> for AdminError {
    fn from(error: io::Error) -> Self {
        AdminError::Gone(error)
    }
}

/// What every admin port is told first, if anything.
static TOKEN: OnceLock<String> = OnceLock::new();

/// Tells admin ports this token from now on, unless another one was given before.
pub fn use_token(token: &str) {
    TOKEN.get_or_init(|| token.to_string());
}

/// An open admin connection.
#[derive(Debug)]
pub struct AdminClient {
    address: SocketAddr,
    stream: BufReader<AdminStream>,
    /// How long an answer about the replica's state may take.
    prompt: Duration,
}

impl AdminClient {
    /// Connects; says who does not answer.
    pub fn connect(address: SocketAddr) -> Result<AdminClient, AdminError> {
        AdminClient::connect_within(address, DIAL, PROMPT)
    }

    /// Connects to `host:port`, at whichever of its addresses lets us; waits `patience` for each, and for each answer.
    pub fn connect_to(name: &str, patience: Duration) -> Result<AdminClient, AdminError> {
        let unknown = || {
            let host = name.rsplit_once(':').map_or(name, |(host, _)| host);
            AdminError::Unknown(host.to_string())
        };
        let host = name.rsplit_once(':').map_or(name, |(host, _)| host).trim_matches(['[', ']']);
        let mut last = None;
        for address in name.to_socket_addrs().map_err(|_| unknown())? {
            match AdminClient::connect_as(address, host, patience, patience) {
                Ok(admin) => return Ok(admin),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(unknown))
    }

    /// Connects to a replica that may not answer at all: gives up soon.
    pub fn connect_within(
        address: SocketAddr,
        patience: Duration,
        prompt: Duration,
    ) -> Result<AdminClient, AdminError> {
        AdminClient::connect_as(address, &address.ip().to_string(), patience, prompt)
    }

    /// The same; TLS has to prove that this is the host.
    fn connect_as(
        address: SocketAddr,
        host: &str,
        patience: Duration,
        prompt: Duration,
    ) -> Result<AdminClient, AdminError> {
        let stream = TcpStream::connect_timeout(&address, patience).map_err(within(patience))?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(prompt))?;
        stream.set_read_timeout(Some(prompt))?;
        let stream = AdminStream::new(stream, host)?;
        let mut client = AdminClient { address, stream: BufReader::new(stream), prompt };
        if let Some(token) = TOKEN.get() {
            client.say(&serde_json::json!({ "token": token }))?;
        }
        Ok(client)
    }

    /// Turns an error of this conversation into the command's failure.
    pub fn failure(&self, error: AdminError) -> Failure {
        failure_at(self.address, error)
    }

    /// The replica's state.
    pub fn status(&mut self) -> Result<StatusReport, AdminError> {
        match self.ask(&AdminRequest::Status, self.prompt)? {
            AdminResponse::Status(status) => Ok(*status),
            other => Err(confused(other)),
        }
    }

    /// The same, once it has found out how fresh it is. One of an older build cannot.
    pub fn fresh_status(&mut self) -> Result<StatusReport, AdminError> {
        match self.ask(&AdminRequest::Freshness, self.prompt) {
            Ok(AdminResponse::Status(status)) => Ok(*status),
            Ok(other) => Err(confused(other)),
            // Who refuses everybody hangs up, and has said why.
            Err(refused @ AdminError::Refused(_)) => self.status().map_err(|error| match error {
                AdminError::Gone(_) => refused,
                other => other,
            }),
            Err(error) => Err(error),
        }
    }

    /// Populates the database; tells `progress` how far it is.
    pub fn load(
        &mut self,
        workload: &WorkloadSpec,
        mut progress: impl FnMut(u64, Option<u64>),
    ) -> Result<(), AdminError> {
        self.send(&AdminRequest::Load { workload: workload.clone() })?;
        let mut moved = (Instant::now(), 0);
        loop {
            match self.receive(PATIENT)? {
                AdminResponse::Progress { done, .. } if done == moved.1 && moved.0.elapsed() > STANDSTILL => {
                    let seconds = STANDSTILL.as_secs();
                    return Err(AdminError::Refused(format!(
                        "loading stands still at {done} requests for {seconds} s"
                    )));
                }
                AdminResponse::Progress { done, total } => {
                    if done != moved.1 {
                        moved = (Instant::now(), done);
                    }
                    progress(done, total);
                }
                AdminResponse::Done => return Ok(()),
                other => return Err(confused(other)),
            }
        }
    }

    /// Asks for another membership; how far it is.
    pub fn member(&mut self, change: &MemberRequest) -> Result<MemberReply, AdminError> {
        match self.ask(&AdminRequest::Member { change: change.clone() }, self.prompt)? {
            AdminResponse::Member { state, why, leader, admin } => {
                Ok(MemberReply { state, why, leader, admin })
            }
            other => Err(confused(other)),
        }
    }

    /// Asks for something that is answered by [`AdminResponse::Done`].
    pub fn request(&mut self, request: &AdminRequest) -> Result<(), AdminError> {
        match self.ask(request, PATIENT)? {
            AdminResponse::Done => Ok(()),
            other => Err(confused(other)),
        }
    }

    /// Has the replica, which leads, hand the lead over: to `to`, or to whoever can best. Who leads then, and for how many
    /// milliseconds requests waited.
    pub fn hand_over(&mut self, to: Option<u8>) -> Result<(u8, f64), AdminError> {
        match self.ask(&AdminRequest::HandOver { to }, PATIENT)? {
            AdminResponse::HandedOver { to, paused_ms } => Ok((to, paused_ms)),
            other => Err(confused(other)),
        }
    }

    /// Counts of the running (or last) load.
    pub fn load_stats(&mut self) -> Result<LoadReport, AdminError> {
        match self.ask(&AdminRequest::LoadStats, self.prompt)? {
            AdminResponse::Load(report) => Ok(*report),
            other => Err(confused(other)),
        }
    }

    /// Stops the load; its final counts.
    pub fn stop(&mut self) -> Result<LoadReport, AdminError> {
        match self.ask(&AdminRequest::Stop, PATIENT)? {
            AdminResponse::Load(report) => Ok(*report),
            other => Err(confused(other)),
        }
    }

    /// Runs the workload's consistency conditions.
    pub fn check(&mut self, workload: &WorkloadSpec) -> Result<Vec<CheckReport>, AdminError> {
        match self.ask(&AdminRequest::Check { workload: workload.clone() }, PATIENT)? {
            AdminResponse::Checks { checks } => Ok(checks),
            other => Err(confused(other)),
        }
    }

    /// The store's digest, rows and bytes.
    pub fn digest(&mut self) -> Result<StoreDigest, AdminError> {
        match self.ask(&AdminRequest::Digest, PATIENT)? {
            AdminResponse::Digest { digest, rows, bytes } => Ok(StoreDigest { digest, rows, bytes }),
            other => Err(confused(other)),
        }
    }

    /// How many of a generator's acknowledged audit rows are missing.
    pub fn audit_missing(
        &mut self,
        generator: u32,
        acknowledged: Vec<(u32, u32)>,
    ) -> Result<u64, AdminError> {
        let mut missing = 0;
        for acknowledged in acknowledged.chunks(AUDIT_RANGES) {
            let acknowledged = acknowledged.to_vec();
            match self.ask(&AdminRequest::AuditMissing { generator, acknowledged }, PATIENT)? {
                AdminResponse::AuditMissing { missing: more } => missing += more,
                other => return Err(confused(other)),
            }
        }
        Ok(missing)
    }

    /// Whatever it answers to a request that is answered at once.
    pub fn answer_to(&mut self, request: &AdminRequest) -> Result<AdminResponse, AdminError> {
        self.ask(request, self.prompt)
    }

    fn ask(&mut self, request: &AdminRequest, patience: Duration) -> Result<AdminResponse, AdminError> {
        self.send(request)?;
        self.receive(patience)
    }

    fn send(&mut self, request: &AdminRequest) -> Result<(), AdminError> {
        self.say(request)
    }

    fn say(&mut self, what: &impl serde::Serialize) -> Result<(), AdminError> {
        let mut line = serde_json::to_string(what).map_err(io::Error::other)?;
        line.push('\n');
        let stream = self.stream.get_mut();
        stream.write_all(line.as_bytes()).and_then(|()| stream.flush()).map_err(within(self.prompt))
    }

    fn receive(&mut self, patience: Duration) -> Result<AdminResponse, AdminError> {
        self.stream.get_ref().set_read_timeout(Some(patience))?;
        let mut line = String::new();
        if self.stream.read_line(&mut line).map_err(within(patience))? == 0 {
            return Err(AdminError::Gone(io::ErrorKind::UnexpectedEof.into()));
        }
        match serde_json::from_str(&line) {
            Ok(AdminResponse::Error { message }) => Err(AdminError::Refused(message)),
            Ok(AdminResponse::Starting { doing }) => Err(AdminError::Starting(doing)),
            Ok(response) => Ok(response),
            Err(error) => Err(AdminError::Confused(error.to_string())),
        }
    }
}

/// What [`AdminRequest::Member`] answers: see [`AdminResponse::Member`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberReply {
    /// How far it is.
    pub state: MemberState,
    /// What it waits for, or why it is refused.
    pub why: String,
    /// Who leads, if another decides,
    pub leader: Option<u8>,
    /// and where to ask it.
    pub admin: Option<String>,
}

/// What [`AdminRequest::Digest`] answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreDigest {
    /// Hex; equal exactly if the stores are.
    pub digest: String,
    /// Live rows.
    pub rows: u64,
    /// Live bytes.
    pub bytes: u64,
}

/// The failure of a command that talked to `address`.
pub fn failure_at(address: impl fmt::Display, error: AdminError) -> Failure {
    match error {
        AdminError::Silent(_) => Failure::unavailable(format!("{error} from {address}")),
        AdminError::Gone(_) | AdminError::Unknown(_) => {
            Failure::unavailable(format!("no replica answers at {address}: {error}"))
        }
        AdminError::Starting(_) => Failure::unavailable(format!("the replica at {address}: {error}")),
        other => Failure::negative(format!("the replica at {address}: {other}")),
    }
}

fn confused(response: AdminResponse) -> AdminError {
    AdminError::Confused(format!("unexpected answer {response:?}"))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Answers one connection: the i-th request with the i-th list of lines, then hangs up.
    fn fake_replica(answers: Vec<Vec<AdminResponse>>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut requests = BufReader::new(stream.try_clone().unwrap()).lines();
            for lines in answers {
                let request = requests.next().unwrap().unwrap();
                serde_json::from_str::<AdminRequest>(&request).unwrap();
                for line in lines {
                    writeln!(&stream, "{}", serde_json::to_string(&line).unwrap()).unwrap();
                }
            }
        });
        address
    }

    fn tpcc() -> WorkloadSpec {
        WorkloadSpec { name: "tpcc".into(), options: vec![("warehouses".into(), "1".into())] }
    }

    #[test]
    fn a_load_reports_its_progress_and_ends() {
        let steps = [1, 2].map(|done| AdminResponse::Progress { done, total: Some(2) });
        let address = fake_replica(vec![[&steps[..], &[AdminResponse::Done]].concat()]);
        let mut seen = Vec::new();
        AdminClient::connect(address).unwrap().load(&tpcc(), |done, total| seen.push((done, total))).unwrap();
        assert_eq!(seen, [(1, Some(2)), (2, Some(2))]);
    }

    #[test]
    fn a_refusal_is_not_a_silence() {
        let message = "node 1 leads".to_string();
        let address = fake_replica(vec![vec![AdminResponse::Error { message }]]);
        let mut admin = AdminClient::connect(address).unwrap();
        assert!(matches!(admin.stop(), Err(AdminError::Refused(message)) if message == "node 1 leads"));
        assert!(matches!(admin.status(), Err(AdminError::Gone(_))));
    }

    #[test]
    fn a_silence_says_how_long_and_from_whom() {
        // Accepts (the kernel does), and never says a word.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let patience = Duration::from_millis(50);
        let error = AdminClient::connect_to(&address.to_string(), patience).unwrap().status().unwrap_err();
        let failure = failure_at(address, error);
        assert_eq!(failure.to_string(), format!("no answer within 50 ms from {address}"));
        assert_eq!(failure.kind.code(), 4);
        assert_eq!(seconds(DIAL), "2 s");
    }

    /// Once: `status` took no host names, said `Resource temporarily unavailable` for a silence, and nothing of the
    /// cluster: it exited with 0 at a follower of a dead leader.
    #[test]
    fn names_are_resolved_and_every_address_is_tried() {
        // `localhost` is often ::1 first; nobody listens there.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let name = format!("localhost:{}", listener.local_addr().unwrap().port());
        AdminClient::connect_to(&name, DIAL).unwrap();
        let error = AdminClient::connect_to("no-such-host.invalid:7300", DIAL).unwrap_err();
        assert_eq!(error.to_string(), "the name \"no-such-host.invalid\" has no address");
    }

    #[test]
    fn nobody_at_the_address_is_exit_code_4() {
        let address = SocketAddr::from(([127, 0, 0, 1], highwater_node::free_loopback_ports(1).unwrap()[0]));
        let error = AdminClient::connect(address).unwrap_err();
        let failure = failure_at(address, error);
        assert_eq!(failure.kind.code(), 4);
        assert_eq!(failure.to_string(), format!("no replica answers at {address}: nothing listens there"));
    }
}
