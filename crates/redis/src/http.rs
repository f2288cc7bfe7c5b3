//! Who speaks HTTP here was sent by somebody else: a browser that a web page made post to this port, with commands in
//! the body. As in Redis, the first line that looks like it ends the connection, before the body is read.

/// Methods of request lines that could pass for commands.
const METHODS: [&[u8]; 10] =
    [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"TRACE", b"CONNECT", b"PRI"];

/// Whether a command is a line of an HTTP request: `POST` or `Host:` as its name, or a method with a target and a
/// version behind it. No command of ours looks like that.
pub fn is_http<'a>(mut words: impl ExactSizeIterator<Item = &'a [u8]>) -> bool {
    let count = words.len();
    let Some(name) = words.next() else { return false };
    name.eq_ignore_ascii_case(b"post")
        || name.eq_ignore_ascii_case(b"host:")
        // The version first: few values look like one, and many commands are as short as a method.
        || count == 3
            && words.nth(1).is_some_and(|version| version.starts_with(b"HTTP/"))
            && METHODS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> bool {
        let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        is_http(words.into_iter())
    }

    #[test]
    fn lines_of_requests_are_told_from_commands() {
        for http in ["POST / HTTP/1.1", "post", "Host: 127.0.0.1:7200", "GET / HTTP/1.0", "PUT /a HTTP/1.1"] {
            assert!(line(http), "{http}");
        }
        for command in ["GET host:", "SET a HTTP/1.1", "GET HTTP/1.1", "MGET a b HTTP/1.1", "PING", "HOST"] {
            assert!(!line(command), "{command}");
        }
    }
}
