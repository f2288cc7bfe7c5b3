//! The hosts of guests, a step at a time, in a world where nothing is drawn.

use highwater_core::NodeId;
use highwater_engines::EngineKind;
use highwater_redis::keyspace::KEYSPACE;
use highwater_redis_sim::Joined;
use highwater_redis_sim::host::Host;
use highwater_redis_sim::ledger::{Given, Ledger};
use highwater_redis_sim::library::place;
use highwater_redis_sim::model::{End, Op};
use highwater_seam::Nanos;
use highwater_sim::{World, WorldOptions};

const MS: Nanos = 1_000_000;
const STEP: Nanos = 20_000;
const UNIX_MS: u64 = 1_700_000_000_000;

/// The leader of three, and its host.
struct Scene {
    world: World<Joined>,
    ledger: Ledger,
    host: Host,
    leader: NodeId,
    /// What clients were told, by connection.
    told: Vec<(u64, String)>,
}

impl Scene {
    fn new(has_users: bool) -> Scene {
        let tune = (|_: &mut highwater_seam::Options| ()).into();
        let options = WorldOptions { seed: 1, engine: EngineKind::Rolis, nodes: 3, workers: 2, tune };
        let mut world = World::new(options, Joined);
        world.ids().for_each(|id| world.start(id));
        while world.leader().is_none() {
            let until = world.now + MS;
            world.run_until(until);
        }
        let leader = world.leader().expect("there is one");
        let process = world.process(leader).expect("it runs");
        let host = Host::new(&world, leader, process, (7, has_users), None).expect("it runs");
        Scene { world, ledger: Ledger::default(), host, leader, told: Vec::new() }
    }

    fn ask(&mut self, worker: u16, line: u64, op: Op) {
        let words = op.words();
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        self.say(worker, line, &words, vec![op]);
    }

    fn say(&mut self, worker: u16, line: u64, words: &[&str], ops: Vec<Op>) {
        let bulks = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect::<String>();
        let bytes = format!("*{}\r\n{bulks}", words.len());
        self.host.arrive(worker, line, bytes.as_bytes(), ops);
    }

    /// The host and the world take turns until something is so.
    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Scene) -> bool) {
        let deadline = self.world.now + 500 * MS;
        while !done(self) {
            assert!(self.world.now < deadline, "{what}: {}", self.host.describe());
            for reply in std::mem::take(&mut self.world.replies) {
                let given = Given {
                    token: reply.token,
                    outcome: reply.outcome,
                    moment: reply.moment,
                    bytes: reply.bytes,
                };
                let asked = self.ledger.released(&given, self.world.now).expect("the host asked it");
                self.host
                    .released(&mut self.world, asked, &given, UNIX_MS)
                    .expect("nobody was served out of turn");
            }
            let output = self
                .host
                .act(&mut self.world, &mut self.ledger, UNIX_MS)
                .expect("nobody was forgotten")
                .bytes;
            self.told.extend(
                output
                    .into_iter()
                    .map(|(line, bytes)| (line, String::from_utf8(bytes).expect("replies here are text"))),
            );
            let until = self.world.now + STEP;
            self.world.run_until(until);
        }
    }

    fn holds(&self, key: &str) -> bool {
        let store = self.world.replica(self.leader).expect("it runs").controller.store();
        highwater_core::View::get(&*store, place(KEYSPACE), key.as_bytes()).is_some()
    }
}

/// A client pushed and was gone before that was released: its request was in nobody's account, so that who waited for the list passed for
/// forgotten, though the write was yet to be released and would wake it. (`highwater sim --seed 900113`.)
#[test]
fn who_waits_for_the_write_of_one_that_is_gone_is_not_forgotten() {
    let mut scene = Scene::new(false);
    scene.ask(0, 1, Op::Pop(vec!["q:a".into()], End::Left, 0));
    scene.until("somebody waits", |scene| scene.host.describe().contains("0 under way, waits Some"));
    // Nothing is decided meanwhile.
    let others: Vec<NodeId> = scene.world.ids().filter(|id| *id != scene.leader).collect();
    others.into_iter().for_each(|id| scene.world.pause(id, 10 * MS));
    scene.ask(1, 2, Op::Push("q:a".into(), End::Right, "x".into()));
    scene.until("the write is executed", |scene| scene.holds("q:a"));
    scene.host.close(1, 2);
    scene.until("it is gone", |scene| !scene.host.describe().contains("connection 2"));
    assert_eq!(scene.told, [], "nothing was released yet");
    scene.until("it is served", |scene| !scene.told.is_empty());
    assert_eq!(scene.told, [(1, "*2\r\n$3\r\nq:a\r\n$1\r\nx\r\n".to_string())]);
}

/// A user was deleted, and its connection closed; the next command, on its way already, came over a new one of the same number, whose user
/// may everything. (`highwater sim --seed 80000189`.)
#[test]
fn what_comes_over_a_connection_that_was_closed_is_thrown_away() {
    let mut scene = Scene::new(true);
    let told = |scene: &Scene, line: u64| scene.told.iter().filter(|(told, _)| *told == line).count();
    scene.say(0, 1, &["ACL", "SETUSER", "guest", "on", "nopass", "~*", "+@all"], Vec::new());
    scene.until("there is a user", |scene| told(scene, 1) == 1);
    scene.say(0, 2, &["AUTH", "guest", "any"], Vec::new());
    scene.until("it is let in", |scene| told(scene, 2) == 1);
    scene.say(0, 1, &["ACL", "DELUSER", "guest"], Vec::new());
    scene.until("its connection is closed", |scene| !scene.host.describe().contains("connection 2"));
    scene.say(0, 2, &["SET", "late", "x"], Vec::new());
    scene.say(0, 1, &["SET", "other", "x"], Vec::new());
    scene.until("another's write is there", |scene| scene.holds("other") && told(scene, 1) == 3);
    assert!(!scene.holds("late"));
}
