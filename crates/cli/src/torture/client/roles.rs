//! What the clients are: those that work on whoever leads, those that read snapshots, and those that do both and carry tokens.
//!
//! Where nobody leads, each keeps to a replica, and goes elsewhere while that one fails; those that would read snapshots read there,
//! and are answered as if they wrote.

use std::fs::File;
use std::io::{self, BufWriter};
use std::time::Duration;

use highwater_checker::Status;
use highwater_workloads::random::{Rng, mix};

use super::carrier::Carrier;
use super::fresh::Fresh;
use super::session::{Asks, Session, Setup};
use super::work::{self, Values};
use super::{ClientArgs, Common};

/// How long the clients wait for a reply: some are patient, some are not.
const PATIENCE: [Duration; 4] = [
    Duration::from_millis(400),
    Duration::from_millis(1000),
    Duration::from_millis(2500),
    Duration::from_millis(6000),
];
/// How long those wait who read snapshots: other replicas have them, too. Longer than a replica takes to say that it is not fresh.
const READER_PATIENCE: Duration = Duration::from_millis(600);
/// One client of so many only reads: snapshots, if there are any, half of them within a bound. It goes on while nobody leads.
const READER_EVERY: u64 = 5;
/// And another one carries tokens.
const CARRIER_EVERY: u64 = 5;

/// What a client does, by its number.
pub fn begin(args: &ClientArgs, number: u64) -> io::Result<Box<dyn Client>> {
    let patience = PATIENCE[number as usize % PATIENCE.len()];
    let session = |asks: Asks, patience: Duration, name: &str| -> io::Result<FileSession> {
        let file = File::create(args.history.join(format!("{name}-{number}.jsonl")))?;
        let seed = mix(args.seed ^ mix(number) ^ u64::from(asks == Asks::SnapshotsSince));
        let setup = Setup { asks, doors: args.doors.clone(), number, of: args.of, patience, seed };
        Ok(Session::new(setup, BufWriter::new(file)))
    };
    let values = Values::new(number, args.of);
    let abilities = args.engine.abilities();
    let reads = number % READER_EVERY == 1;
    if !abilities.snapshots {
        let asks = match (abilities.leaderless, reads) {
            (true, true) => Asks::Present,
            (true, false) => Asks::Anybody,
            (false, _) => Asks::Leader,
        };
        return Ok(Box::new(Writer { session: session(asks, patience, "client")?, values, reads }));
    }
    Ok(if reads {
        Box::new(Reader { session: session(Asks::Snapshots, READER_PATIENCE, "client")? })
    } else if number % CARRIER_EVERY == 3 {
        let leading = session(Asks::Leader, patience, "client")?;
        let following = session(Asks::SnapshotsSince, READER_PATIENCE, "client-with-tokens")?;
        Box::new(Bearer { carrier: Carrier::new(leading, following, args.of), values })
    } else {
        Box::new(Writer { session: session(Asks::Leader, patience, "client")?, values, reads })
    })
}

/// What a client does, over and over: one transaction, or none if nobody is there to ask.
pub trait Client {
    /// Its randomness.
    fn rng(&mut self) -> &mut Rng;

    /// The next one.
    fn step(&mut self, common: &Common) -> io::Result<Step>;

    /// Writes out what is buffered.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// What became of one.
pub enum Step {
    /// It may have been done.
    Done,
    /// It was refused, or nobody was there to ask.
    Refused,
}

impl Step {
    fn of(status: Status) -> Step {
        if status == Status::Fail { Step::Refused } else { Step::Done }
    }
}

type FileSession = Session<BufWriter<File>>;

/// Works on whoever leads, or on any replica where nobody does.
struct Writer {
    session: FileSession,
    values: Values,
    /// It writes nothing.
    reads: bool,
}

impl Client for Writer {
    fn rng(&mut self) -> &mut Rng {
        self.session.rng()
    }

    fn step(&mut self, common: &Common) -> io::Result<Step> {
        let Writer { session, values, reads } = self;
        if !session.connected() {
            return Ok(Step::Refused);
        }
        let task = match *reads {
            true => work::draw_reads(session.rng(), &common.lists),
            false => work::draw(session.rng(), &common.lists, values),
        };
        let status = session.run(&task, &common.lists)?;
        common.count(status, std::mem::take(&mut session.broken));
        common.complain(&mut session.trouble);
        Ok(Step::of(status))
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.session.finish()
    }
}

/// Reads snapshots, within a bound or not.
struct Reader {
    session: FileSession,
}

impl Client for Reader {
    fn rng(&mut self) -> &mut Rng {
        self.session.rng()
    }

    fn step(&mut self, common: &Common) -> io::Result<Step> {
        let session = &mut self.session;
        if !session.connected() {
            return Ok(Step::Refused);
        }
        let fresh = Fresh::draw(session.rng());
        let mut status = Status::Fail;
        if session.ask_for(fresh) {
            let task = work::draw_reads(session.rng(), &common.lists);
            status = session.run(&task, &common.lists)?;
            let not = (std::mem::take(&mut session.broken), std::mem::take(&mut session.not_fresh));
            common.count_read(fresh, status, not);
        }
        common.complain(&mut session.trouble);
        Ok(Step::of(status))
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.session.finish()
    }
}

/// Works on whoever leads, and reads with tokens elsewhere.
struct Bearer {
    carrier: Carrier<BufWriter<File>>,
    values: Values,
}

impl Client for Bearer {
    fn rng(&mut self) -> &mut Rng {
        self.carrier.leading.rng()
    }

    fn step(&mut self, common: &Common) -> io::Result<Step> {
        let Bearer { carrier, values } = self;
        let status = match carrier.leading.rng().percent(50) {
            true if carrier.leading.connected() => {
                let task = work::draw(carrier.leading.rng(), &common.lists, values);
                let status = carrier.work(&task, &common.lists)?;
                common.count(status, std::mem::take(&mut carrier.leading.broken));
                status
            }
            false if carrier.following.connected() => {
                let task = work::draw_reads(carrier.following.rng(), &common.lists);
                let asked = carrier.asks();
                let status = carrier.read(&task, &common.lists)?;
                let session = &mut carrier.following;
                let not = (std::mem::take(&mut session.broken), std::mem::take(&mut session.not_fresh));
                if let Some(status) = status {
                    common.count_read(asked, status, not);
                }
                status.unwrap_or(Status::Fail)
            }
            _ => Status::Fail,
        };
        common.complain(&mut carrier.leading.trouble);
        common.complain(&mut carrier.following.trouble);
        Ok(Step::of(status))
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.carrier.leading.finish()?;
        self.carrier.following.finish()
    }
}
