//! Conversations, byte by byte.

use std::sync::Arc;

use super::guard::Guard;
use super::page::Page;
use super::request::{MAX_BODY_BYTES, MAX_HEAD_BYTES};
use super::response::{Answer, Status};
use crate::admin::protocol::{AdminRequest, AdminResponse};
use crate::admin::talk::{LONGEST_IDLE, MAX_UNREAD_BYTES, Question, SLOWEST_REQUEST, Talk};

const TOKEN: &str = "0123456789abcdef";

fn open() -> Talk {
    let admins = || vec!["127.0.0.1:7300".to_string(), "127.0.0.1:7301".to_string()];
    Talk::new(Arc::new(Guard::new(None, &["db.example".into()], admins)), 0)
}

fn locked() -> Talk {
    let admins = || vec!["127.0.0.1:7300".to_string()];
    Talk::new(Arc::new(Guard::new(Some(TOKEN), &[], admins)), 0)
}

fn get(path: &str, more: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:7300\r\n{more}\r\n")
}

fn post(body: &str, more: &str) -> String {
    let length = body.len();
    format!("POST /v1/admin HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{more}\r\n{body}")
}

const IS_JSON: &str = "Content-Type: application/json\r\n";

/// What comes of these bytes: a question, or the number of a refusal, behind which nothing is heard.
fn say(talk: &mut Talk, bytes: &[u8]) -> Result<Option<Question>, u16> {
    talk.receive(bytes, 0);
    let question = talk.next(0);
    if !talk.hung_up() {
        return Ok(question);
    }
    assert_eq!(question, None);
    let text = output(talk);
    assert!(text.contains("Connection: close\r\n"), "{text}");
    talk.receive(get("/healthz", "").as_bytes(), 0);
    assert_eq!(talk.next(0), None, "nothing behind it is looked at");
    Err(text.split(' ').nth(1).unwrap().parse().unwrap())
}

fn output(talk: &mut Talk) -> String {
    let text = String::from_utf8(talk.output().to_vec()).unwrap();
    talk.wrote(text.len());
    text
}

#[test]
fn pages_are_asked_for_and_answered_one_after_another() {
    let mut talk = open();
    let both = get("/healthz", "") + &get("/status", "");
    // Byte by byte, as a slow network brings it.
    for byte in &both.as_bytes()[..get("/healthz", "").len() - 1] {
        assert_eq!(say(&mut talk, &[*byte]), Ok(None));
    }
    let rest = &both.as_bytes()[get("/healthz", "").len() - 1..];
    assert_eq!(say(&mut talk, rest), Ok(Some(Question::Page(Page::Health))));
    assert!(talk.is_busy() && !talk.wants_input());
    assert_eq!(talk.next(0), None, "one at a time");
    talk.answer(&Answer::error(Status::Unavailable, "no"), false);
    let text = output(&mut talk);
    assert!(text.starts_with("HTTP/1.1 503 Service Unavailable\r\n") && text.ends_with("}\n"), "{text}");
    assert_eq!(talk.next(0), Some(Question::Page(Page::Status)));
    talk.answer(&Answer::error(Status::Ok, "x"), true);
    assert!(output(&mut talk).contains("Connection: close\r\n") && talk.hung_up());
}

#[test]
fn of_a_head_request_the_content_is_left_out() {
    let mut talk = open();
    let head = get("/status", "").replace("GET", "HEAD");
    assert_eq!(say(&mut talk, head.as_bytes()), Ok(Some(Question::Page(Page::Status))));
    talk.answer(&Answer::json(Status::Ok, &[1, 2, 3]), false);
    let text = output(&mut talk);
    assert!(text.contains("Content-Length: 8\r\n") && text.ends_with("\r\n\r\n"), "{text}");
}

#[test]
fn what_is_no_good_request_gets_its_number() {
    let long = "x".repeat(MAX_HEAD_BYTES);
    let many = "A: b\r\n".repeat(65);
    let huge = (MAX_BODY_BYTES + 1).to_string();
    let cases: &[(u16, &str)] = &[
        (400, "GET / HTTP/1.1\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"),
        (400, "GET  / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        (400, "G\0T / HTTP/1.1\r\n\r\n"),
        (400, &get("/readyz?max_lag_ms=soon", "")),
        (400, &get("/readyz?role=king", "")),
        (400, &get("/status", "Content-Length: 5\r\n")),
        (400, &get("/status", "Content-Length: -1\r\n")),
        (400, &get("/status", "Content-Length: 1\r\nContent-Length: 2\r\n")),
        (400, &post("{\"do\":\"dance\"}", IS_JSON)),
        (400, &post("", IS_JSON)),
        (403, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
        (403, &post("{\"do\":\"shutdown\"}", &format!("{IS_JSON}Origin: http://127.0.0.1:7300\r\n"))),
        (403, &post("{\"do\":\"shutdown\"}", &format!("{IS_JSON}Origin: null\r\n"))),
        (404, &get("/nothing", "")),
        (404, &get("/v1/../status", "")),
        (405, &get("/status", "").replace("GET", "POST")),
        (405, &get("/status", "").replace("GET", "DELETE")),
        (405, &get("/v1/admin", "")),
        (
            413,
            &format!("POST /v1/admin HTTP/1.1\r\nHost: localhost\r\n{IS_JSON}Content-Length: {huge}\r\n\r\n"),
        ),
        (413, &get("/", "Content-Length: 99999999999999999999999999\r\n")),
        (415, &post("{\"do\":\"shutdown\"}", "")),
        (415, &post("{\"do\":\"shutdown\"}", "Content-Type: text/plain\r\n")),
        (417, &get("/status", "Expect: miracles\r\n")),
        (431, &get("/status", &format!("X: {long}\r\n"))),
        (431, &get("/status", &many)),
        (431, &format!("GET /{long}")),
        (501, &get("/status", "").replace("GET", "BREW")),
        (501, &post("{}", "Transfer-Encoding: chunked\r\n")),
        (505, "GET / HTTP/2.0\r\nHost: localhost\r\n\r\n"),
        (505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ];
    for (number, bytes) in cases {
        assert_eq!(say(&mut open(), bytes.as_bytes()), Err(*number), "{:?}", &bytes[..bytes.len().min(200)]);
    }
}

#[test]
fn what_a_browser_was_made_to_send_is_told() {
    let suspicious = [
        get("/", "").replace("127.0.0.1", "evil.example"),
        get("/", "").replace("GET", "POST"),
        post("{\"do\":\"shutdown\"}", "Content-Type: text/plain\r\n"),
        post("{\"do\":\"shutdown\"}", &format!("{IS_JSON}Origin: http://evil.example\r\n")),
    ];
    for bytes in suspicious {
        let mut talk = open();
        say(&mut talk, bytes.as_bytes()).unwrap_err();
        assert!(talk.take_suspicion().is_some() && talk.take_suspicion().is_none(), "{bytes}");
    }
    let mut talk = open();
    say(&mut talk, get("/nothing", "").as_bytes()).unwrap_err();
    assert_eq!(talk.take_suspicion(), None);
}

#[test]
fn a_request_of_the_line_protocol_can_be_posted() {
    let mut talk = open();
    let bytes = post("{\"do\":\"status\"}", IS_JSON);
    let (head, body) = bytes.split_at(bytes.len() - 5);
    assert_eq!(say(&mut talk, head.as_bytes()), Ok(None));
    assert_eq!(say(&mut talk, body.as_bytes()), Ok(Some(Question::Post(AdminRequest::Status))));
    let mut talk = open();
    let bytes = post("{\"do\":\"status\"}", &format!("{IS_JSON}Expect: 100-continue\r\n"));
    let (head, body) = bytes.split_at(bytes.len() - 15);
    assert_eq!(say(&mut talk, head.as_bytes()), Ok(None));
    assert_eq!(output(&mut talk), "HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(talk.next(0), None);
    assert_eq!(output(&mut talk), "", "it is said once");
    assert_eq!(say(&mut talk, body.as_bytes()), Ok(Some(Question::Post(AdminRequest::Status))));
}

#[test]
fn a_token_is_asked_for_where_one_is_set() {
    for path in ["/", "/healthz", "/readyz"] {
        assert!(say(&mut locked(), get(path, "").as_bytes()).unwrap().is_some(), "{path} is for everybody");
    }
    for path in ["/status", "/metrics", "/v1/cluster", "/v1/events", "/v1/slow", "/v1/hot-keys"] {
        assert_eq!(say(&mut locked(), get(path, "").as_bytes()), Err(401), "{path}");
        for wrong in ["Bearer", "Bearer 0123456789abcdee", "Basic 0123456789abcdef", TOKEN] {
            let bytes = get(path, &format!("Authorization: {wrong}\r\n"));
            assert_eq!(say(&mut locked(), bytes.as_bytes()), Err(401), "{wrong}");
        }
        let bytes = get(path, &format!("authorization: bearer {TOKEN}\r\n"));
        assert!(say(&mut locked(), bytes.as_bytes()).unwrap().is_some(), "{path}");
    }
    assert_eq!(say(&mut locked(), post("{\"do\":\"status\"}", IS_JSON).as_bytes()), Err(401));
}

#[test]
fn lines_give_their_token_first() {
    let line = "{\"do\":\"status\"}\n";
    let token = |token: &str| format!("{{\"token\":\"{token}\"}}\n");
    let mut talk = locked();
    talk.receive((token(TOKEN) + line + line).as_bytes(), 0);
    assert_eq!(talk.next(0), Some(Question::Line(AdminRequest::Status)));
    assert_eq!(talk.next(0), None);
    talk.respond(&AdminResponse::Done);
    assert_eq!(output(&mut talk), "{\"is\":\"done\"}\n");
    assert_eq!(talk.next(0), Some(Question::Line(AdminRequest::Status)));
    for wrong in [line.to_string(), token("") + line, token("0123456789abcdee") + line] {
        let mut talk = locked();
        talk.receive(wrong.as_bytes(), 0);
        assert_eq!(talk.next(0), None);
        assert!(talk.hung_up() && output(&mut talk).contains("admin.token"), "{wrong}");
    }
    let mut talk = open();
    talk.receive((token("whatever is told, nobody asked") + line).as_bytes(), 0);
    assert_eq!(talk.next(0), Some(Question::Line(AdminRequest::Status)));
}

#[test]
fn pages_of_the_cluster_may_read_answers() {
    let with = |origin: &str| get("/status", &format!("Origin: {origin}\r\n"));
    let allowed = |origin: &str| {
        let mut talk = open();
        say(&mut talk, with(origin).as_bytes()).unwrap().unwrap();
        talk.answer(&Answer::json(Status::Ok, &1), false);
        output(&mut talk).contains(&format!("Access-Control-Allow-Origin: {origin}\r\n"))
    };
    assert!(allowed("http://127.0.0.1:7301") && allowed("http://db.example:7300"));
    assert!(!allowed("http://evil.example") && !allowed("null") && !allowed("http://127.0.0.1:80"));
    let mut talk = open();
    let preflight = with("http://127.0.0.1:7301").replace("GET", "OPTIONS");
    assert_eq!(say(&mut talk, preflight.as_bytes()), Ok(None));
    let text = output(&mut talk);
    assert!(
        text.starts_with("HTTP/1.1 204 ") && text.contains("Access-Control-Allow-Headers: authorization\r\n")
    );
    let mut talk = locked();
    talk.receive(with("http://127.0.0.1:7300").as_bytes(), 0);
    assert_eq!(talk.next(0), None);
    let text = output(&mut talk);
    assert!(
        text.starts_with("HTTP/1.1 401 ") && text.contains("Allow-Origin: http://127.0.0.1:7300\r\n"),
        "{text}"
    );
}

/// Once: who asked the admin port again and again and read no answer filled the node's memory with answers: the next
/// question was taken whatever waited to be read.
#[test]
fn who_never_reads_is_asked_nothing_more() {
    let mut talk = open();
    let pipeline = get("/v1/cluster", "").repeat(1000);
    talk.receive(pipeline.as_bytes(), 0);
    let answer = Answer::json(Status::Ok, &"x".repeat(1000));
    let mut answered = 0;
    while talk.next(0).is_some() {
        talk.answer(&answer, false);
        answered += 1;
    }
    assert!(answered < 100 && talk.output().len() <= MAX_UNREAD_BYTES + 2000 && !talk.wants_input());
    let mut talk = open();
    talk.receive("{\"do\":\"status\"}\n".repeat(10_000).as_bytes(), 0);
    while talk.next(0).is_some() {
        talk.respond(&AdminResponse::Error { message: "x".repeat(1000) });
    }
    assert!(talk.output().len() <= MAX_UNREAD_BYTES + 2000, "lines are no different");
}

#[test]
fn who_is_slow_is_told_and_who_is_silent_is_left() {
    let mut talk = open();
    assert_eq!(say(&mut talk, b"GET / HT"), Ok(None));
    talk.receive(b"TP/1.1\r\n", SLOWEST_REQUEST - 1);
    talk.look(SLOWEST_REQUEST - 1);
    assert!(!talk.hung_up());
    talk.look(SLOWEST_REQUEST);
    assert!(talk.hung_up() && output(&mut talk).starts_with("HTTP/1.1 408 "));
    let mut talk = open();
    say(&mut talk, get("/status", "").as_bytes()).unwrap().unwrap();
    talk.look(10 * LONGEST_IDLE);
    assert!(!talk.hung_up(), "it waits for us");
    talk.answer(&Answer::json(Status::Ok, &1), false);
    output(&mut talk);
    talk.look(LONGEST_IDLE);
    assert!(talk.hung_up() && output(&mut talk).is_empty());
}

#[test]
fn an_older_client_is_served_and_let_go() {
    let mut talk = open();
    let question = say(&mut talk, b"GET /healthz HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(question, Some(Question::Page(Page::Health)));
    talk.answer(&Answer::json(Status::Ok, &1), false);
    assert!(talk.hung_up());
}

#[test]
fn whatever_comes_is_answered_or_refused() {
    let mut random = highwater_core::random::Random::new(7);
    let seeds = [
        get("/readyz?max_lag_ms=5&role=leader", "Origin: http://127.0.0.1:7300\r\nExpect: 100-continue\r\n"),
        post("{\"do\":\"status\"}", &format!("{IS_JSON}Authorization: Bearer {TOKEN}\r\n")),
        format!("{{\"token\":\"{TOKEN}\"}}\n{{\"do\":\"hot_keys\",\"reset\":true}}\n"),
    ];
    for turn in 0..20_000 {
        let mut bytes = seeds[turn % seeds.len()].clone().into_bytes();
        for _ in 0..random.bits() % 4 {
            let at = random.bits() as usize % bytes.len();
            match random.bits() % 3 {
                0 => bytes[at] = random.bits() as u8,
                1 => drop(bytes.drain(at..(at + 1 + random.bits() as usize % 20).min(bytes.len()))),
                _ => bytes.insert(at, b"\r\n: \0{\"9,Z"[random.bits() as usize % 10]),
            }
            if bytes.is_empty() {
                bytes.push(b'G');
            }
        }
        let mut talk = if turn % 2 == 0 { open() } else { locked() };
        for piece in bytes.chunks(1 + random.bits() as usize % 64) {
            talk.receive(piece, 0);
            while let Some(question) = talk.next(0) {
                match question {
                    Question::Line(_) => talk.respond(&AdminResponse::Done),
                    Question::Page(_) | Question::Post(_) => {
                        talk.answer(&Answer::json(Status::Ok, &1), false)
                    }
                }
            }
        }
        talk.end_of_input();
        assert_eq!(talk.next(0), None);
        assert!(
            talk.is_over() && talk.output().len() < MAX_UNREAD_BYTES,
            "{:?}",
            String::from_utf8_lossy(&bytes)
        );
    }
}
