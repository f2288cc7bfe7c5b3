//! What is told, given up and looked for, without sockets.

use std::net::{TcpListener, TcpStream};

use super::*;

const EVERY: Nanos = 100;
const PEER: NodeId = NodeId(1);

/// One side, its gauges, and its time.
struct Side {
    accounts: Accounts,
    now: Nanos,
    control: Arc<Gauge>,
    worker: Arc<Gauge>,
}

fn connection(channel: Channel, number: u32, life: u64, gauge: &Arc<Gauge>) -> Established {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (incarnation, generation, gauge) = (Incarnation(life), u64::from(number) + 1000, gauge.clone());
    Established {
        peer: PEER,
        incarnation,
        levels: highwater_core::Levels::default(),
        channel,
        generation,
        number,
        gauge,
        stream: crate::tls::Wire::Plain(stream),
    }
}

impl Side {
    /// With a control connection, and worker 0's of number 5, both to life 7.
    fn connected() -> Side {
        let accounts = Accounts::new(EVERY);
        let mut side = Side { accounts, now: 0, control: Arc::default(), worker: Arc::default() };
        assert_eq!(side.adopts(Channel::Worker(0), 5, 7), []);
        assert_eq!(side.adopts(Channel::Control, 1, 7), []);
        let account = side.account(5, true);
        assert_eq!(side.turn(), [account], "whoever is met is told all");
        side
    }

    fn adopts(&mut self, channel: Channel, number: u32, life: u64) -> Vec<Order> {
        let gauge = if channel == Channel::Control { &self.control } else { &self.worker };
        let mut orders = Vec::new();
        self.accounts.adopted(self.now, &connection(channel, number, life, gauge), &mut orders);
        orders
    }

    fn turn(&mut self) -> Vec<Order> {
        let mut orders = Vec::new();
        self.accounts.turn(self.now, &mut orders);
        // What is told goes over the control connection.
        let told = orders.iter().filter(|order| matches!(order, Order::Tell(..))).count();
        self.control.sends(told * 30);
        orders
    }

    fn look(&mut self) -> Vec<Order> {
        self.now += EVERY;
        self.turn()
    }

    fn hears(&mut self, number: u32, up: bool, sent: u64) -> Vec<Order> {
        let mut orders = Vec::new();
        self.control.receives(30);
        self.accounts.heard(PEER, &encode(&[Account { number, up, sent }]), &mut orders);
        orders
    }

    fn account(&self, number: u32, up: bool) -> Order {
        Order::Tell(PEER, encode(&[Account { number, up, sent: self.worker.sent() }]))
    }
}

fn give_up(generation: u64) -> Order {
    Order::GiveUp { peer: PEER, worker: 0, generation }
}

#[test]
fn accounts_travel_and_a_later_build_may_say_more() {
    let accounts = [Account { number: 1, up: true, sent: 1 << 40 }, Account::default()];
    let bytes = encode(&accounts);
    assert_eq!(introduction(&bytes), None);
    let introduced: Bytes = [&bytes[..], b"n3"].concat().into();
    assert_eq!(
        (introduction(&introduced).as_deref(), decode(&introduced)),
        (Some(&b"n3"[..]), Ok(accounts.to_vec()))
    );
    assert_eq!(decode(&bytes).unwrap(), accounts);
    assert_eq!(decode(&[&bytes[..], b"more"].concat()).unwrap(), accounts);
    (0..bytes.len()).for_each(|len| assert!(decode(&bytes[..len]).is_err(), "{len}"));
}

#[test]
fn who_loses_a_connection_tells_at_once_and_who_hears_it_gives_up() {
    let mut side = Side::connected();
    side.accounts.lost(PEER, Channel::Worker(0), 1);
    assert_eq!(side.turn(), [], "that was an earlier one");
    side.accounts.lost(PEER, Channel::Worker(0), 1005);
    assert_eq!(side.turn(), [side.account(5, false)]);
    assert_eq!(Side::connected().hears(5, false, 0), [give_up(1005)]);
    assert_eq!(Side::connected().hears(6, true, 0), [give_up(1005)], "the peer has a later one");
    assert_eq!(Side::connected().hears(5, true, 0), []);
}

#[test]
fn an_older_account_says_nothing_of_a_newer_connection() {
    let mut side = Side::connected();
    assert_eq!(side.hears(4, false, 0), []);
    assert_eq!(side.hears(4, true, 900), []);
    assert_eq!(side.hears(0, false, 0), [], "nor does that of a peer that has yet to be called");
    side.look();
    assert!(!side.look().iter().any(|order| matches!(order, Order::Look { .. })));
}

#[test]
fn a_later_life_of_the_peer_has_none_of_the_earlier_ones_connections() {
    let mut side = Side::connected();
    assert_eq!(side.adopts(Channel::Control, 1, 8), [give_up(1005)]);
    assert_eq!(side.hears(0, false, 0), [], "what it says is of its own connections");
    let mut side = Side::connected();
    assert_eq!(side.adopts(Channel::Worker(0), 1, 8), []);
    assert_eq!(side.adopts(Channel::Control, 1, 8), [], "its workers may be quicker than its controller");
}

#[test]
fn bytes_that_were_sent_are_looked_for_until_they_come() {
    let mut side = Side::connected();
    side.hears(5, true, 100);
    let look = Order::Look { peer: PEER, worker: 0, generation: 1005, bytes: 100 };
    assert!(side.look().contains(&look));
    assert!(!side.look().contains(&look), "its worker has not looked yet: it is busy");
    side.worker.looks();
    assert!(side.look().contains(&look));
    side.worker.looks();
    side.worker.receives(100);
    assert!(!side.look().contains(&look));
}

#[test]
fn who_says_something_anyway_tells_only_news_and_who_says_nothing_tells_that() {
    let mut side = Side::connected();
    let mut told = 0;
    for _ in 0..100 {
        side.control.receives(1);
        told += side.look().len();
    }
    assert_eq!(told, 50, "every second look");
    let account = side.account(5, true);
    side.control.sends(1);
    assert_eq!(side.look(), []);
    for _ in 0..100 {
        side.control.sends(1);
        side.control.receives(1);
        assert_eq!(side.look(), [], "heartbeats are enough");
    }
    side.control.sends(1);
    side.worker.sends(1);
    let news = side.account(5, true);
    assert_ne!(news, account);
    assert_eq!(side.look(), [news]);
}

#[test]
fn a_silent_control_connection_is_lost_but_not_by_sleeping() {
    let mut side = Side::connected();
    for _ in 0..3 {
        // Whoever is stopped for long has looked once.
        side.now += 1000 * EVERY;
        assert!(!side.turn().contains(&Order::HangUp(PEER)));
    }
    side.control.receives(1);
    for _ in 0..SILENT_LOOKS {
        assert!(!side.look().contains(&Order::HangUp(PEER)));
    }
    assert_eq!(side.look(), [Order::HangUp(PEER)]);
    side.accounts.lost(PEER, Channel::Control, 1001);
    assert_eq!(side.look(), []);
    assert_eq!(side.accounts.deadline(), None, "nobody is left to look at");
}

#[test]
fn a_build_that_keeps_no_accounts_is_left_alone() {
    let mut side =
        Side { accounts: Accounts::new(EVERY), now: 0, control: Arc::default(), worker: Arc::default() };
    side.adopts(Channel::Worker(0), 0, 7);
    side.adopts(Channel::Control, 0, 7);
    for _ in 0..100 {
        assert_eq!(side.look(), []);
    }
    side.accounts.lost(PEER, Channel::Worker(0), 1000);
    assert_eq!(side.look(), []);
}
