//! The parser: any cut gives the same commands, and nothing makes it panic.

use highwater_core::limits::MAX_LINE_BYTES;
use proptest::prelude::*;

use super::double::multibulk;
use crate::frame::Parser;

/// What came out of the bytes: commands, and how it ended.
type Parsed = (Vec<Vec<Vec<u8>>>, Option<String>);

/// Reads bytes that arrive in pieces.
fn parse(pieces: &[&[u8]]) -> Parsed {
    let (mut parser, mut input, mut taken) = (Parser::default(), Vec::new(), 0);
    let mut commands = Vec::new();
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            match parser.parse(&input[taken..]) {
                Ok(None) => break,
                Err(error) => return (commands, Some(error.to_string())),
                Ok(Some(frame)) => {
                    commands.push(frame.parts().map(<[u8]>::to_vec).collect());
                    taken += frame.len;
                }
            }
        }
    }
    (commands, None)
}

fn words(bytes: &[u8]) -> Vec<Vec<String>> {
    let (commands, error) = parse(&[bytes]);
    assert_eq!(error, None);
    let text = |word: Vec<u8>| String::from_utf8(word).unwrap();
    commands.into_iter().map(|command| command.into_iter().map(text).collect()).collect()
}

fn error(bytes: &[u8]) -> String {
    parse(&[bytes]).1.expect("bytes that break the protocol")
}

#[test]
fn inline_commands_are_cut_and_unquoted_as_redis_does() {
    assert_eq!(words(b"PING\r\nGET a\n"), [vec!["PING"], vec!["GET", "a"]]);
    assert_eq!(words(b"  SET \"a b\"\t'c d' \r\n"), [["SET", "a b", "c d"]]);
    assert_eq!(
        words(br#"E "\x41\n\t\q\"\xzz" '\'\n'"#.iter().chain(b"\n").copied().collect::<Vec<_>>().as_slice()),
        [["E", "A\n\tq\"xzz", "'\\n"]]
    );
    assert_eq!(words(b"E a\"b c\" '' \"\"\n"), [["E", "ab c", "", ""]]);
    assert_eq!(words(b"\r\n   \nPING\n"), [vec![], vec![], vec!["PING"]]);
}

#[test]
fn empty_arrays_are_nothing() {
    assert_eq!(words(b"*0\r\n*-1\r\n*1\r\n$4\r\nPING\r\n"), [vec![], vec![], vec!["PING"]]);
}

#[test]
fn what_breaks_the_protocol_is_told_in_redis_words() {
    assert_eq!(error(b"*abc\r\n"), "Protocol error: invalid multibulk length");
    assert_eq!(error(b"*\r\n"), "Protocol error: invalid multibulk length");
    assert_eq!(error(b"*1048577\r\n"), "Protocol error: invalid multibulk length");
    assert_eq!(error(b"*1\n$4\r\nPING\r\n"), "Protocol error: invalid multibulk length");
    assert_eq!(error(b"*1\r\nfoo"), "Protocol error: expected '$', got 'f'");
    for length in ["-1", "+4", "04", "x", "", "99999999999999999999"] {
        let bytes = format!("*1\r\n${length}\r\n");
        assert_eq!(error(bytes.as_bytes()), "Protocol error: invalid bulk length");
    }
    assert_eq!(error(b"GET \"a\n"), "Protocol error: unbalanced quotes in request");
    assert_eq!(error(b"GET 'a'b\n"), "Protocol error: unbalanced quotes in request");
}

#[test]
fn endless_lines_are_cut_off() {
    let line = |start: &str| [start.as_bytes(), &vec![b'1'; MAX_LINE_BYTES + 1]].concat();
    assert_eq!(error(&line("x")), "Protocol error: too big inline request");
    assert_eq!(error(&line("*")), "Protocol error: too big mbulk count string");
    assert_eq!(error(&line("*1\r\n$")), "Protocol error: too big bulk count string");
}

#[test]
fn long_values_and_commands_are_refused_at_their_announcement() {
    assert_eq!(
        error(b"*1\r\n$16777217\r\n"),
        "Protocol error: invalid bulk length (a value has at most 16777216 bytes)"
    );
    let value = [b"$16777216\r\n".as_slice(), &vec![b'x'; 16 << 20], b"\r\n"].concat();
    let bytes = [b"*5\r\n".as_slice(), &value, &value, &value, b"$16777216\r\n"].concat();
    assert_eq!(error(&bytes), "Protocol error: too big command (at most 67108864 bytes)");
}

/// Mostly well-formed traffic, with bytes that matter to the parser strewn in.
fn traffic() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::collection::vec(any::<u8>(), 0..12);
    let command =
        prop::collection::vec(word, 1..5).prop_map(|words| multibulk(words.iter().map(Vec::as_slice)));
    let inline = "[a-c\"'\\\\x ]{0,10}\r?\n".prop_map(String::into_bytes);
    let noise = "[*$0-9\r\n-]{0,6}".prop_map(String::into_bytes);
    let piece = prop_oneof![8 => command, 3 => inline, 1 => noise];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn commands_come_out_as_they_went_in(
        commands in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..6), 0..6),
    ) {
        let bytes: Vec<u8> =
            commands.iter().flat_map(|words| multibulk(words.iter().map(Vec::as_slice))).collect();
        prop_assert_eq!(parse(&[&bytes]), (commands, None));
    }

    #[test]
    fn any_cut_gives_the_same_commands(bytes in traffic(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        let whole = parse(&[&bytes]);
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        let pieces: Vec<&[u8]> = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(&parse(&pieces), &whole);
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(&parse(&single), &whole);
    }

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        parse(&[&bytes]);
    }
}
