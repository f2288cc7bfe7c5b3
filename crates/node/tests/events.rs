//! Tests of what a node tells subscribers: `+switch-master`, when another one leads.

#![allow(clippy::unwrap_used, reason = "helpers may unwrap as tests do")]

mod trio;

use trio::{Client, Reply, Trio};

fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.as_bytes().to_vec())
}

#[test]
fn who_listens_is_told_of_the_next_leader_by_every_node() {
    let mut trio = Trio::start(|config| config.cluster.id = "ledger".into());
    let (leader, others) = trio.roles();
    let mut listening: Vec<Client> = others
        .into_iter()
        .flat_map(|id| (0..4).map(move |_| id))
        .map(|id| {
            let mut client = trio.client(id);
            let subscribed = Reply::Array(vec![bulk("subscribe"), bulk("+switch-master"), Reply::Int(1)]);
            assert_eq!(client.ask(&["SUBSCRIBE", "+switch-master"]), subscribed);
            client
        })
        .collect();
    let address = |id: usize| format!("{} {}", trio.address(id).ip(), trio.address(id).port());
    // Whoever wins the election; on a busy machine another one may follow.
    let [one, other] = others.map(|next| format!("ledger {} {}", address(leader), address(next)));
    trio.kill(leader);
    for client in &mut listening {
        let Reply::Array(told) = client.read() else { panic!("no message") };
        assert_eq!(told[..2], [bulk("message"), bulk("+switch-master")]);
        assert!([bulk(&one), bulk(&other)].contains(&told[2]), "{told:?}, not {one}");
        assert_eq!(client.ask(&["PING"]), Reply::Array(vec![bulk("pong"), bulk("")]));
    }
}
