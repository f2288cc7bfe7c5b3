//! What a guest reads from its connection.

/// A reply in RESP2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `+..`, `:..`, `$..`
    Text(String),
    /// `-..`
    Error(String),
    /// `$-1`, `*-1`
    Null,
    /// `*..`
    Array(Vec<Reply>),
}

impl Reply {
    /// Cuts the first whole reply off.
    pub fn take(input: &mut Vec<u8>) -> Option<Reply> {
        let (reply, length) = parse(input)?;
        input.drain(..length);
        Some(reply)
    }

    /// A text's content.
    pub fn text(&self) -> Option<&str> {
        if let Reply::Text(text) = self { Some(text) } else { None }
    }

    /// The texts of an array of them.
    pub fn texts(&self) -> Vec<&str> {
        if let Reply::Array(parts) = self {
            parts.iter().filter_map(Reply::text).collect()
        } else {
            Vec::new()
        }
    }
}

fn parse(input: &[u8]) -> Option<(Reply, usize)> {
    let end = input.windows(2).position(|two| two == b"\r\n")?;
    let line = String::from_utf8_lossy(input.get(1..end)?).into_owned();
    let (number, behind) = (line.parse::<i64>(), end + 2);
    match (input[0], number) {
        (b'+' | b':', _) => Some((Reply::Text(line), behind)),
        (b'-', _) => Some((Reply::Error(line), behind)),
        (b'$' | b'*', Ok(-1)) => Some((Reply::Null, behind)),
        (b'$', Ok(length)) => {
            let text = input.get(behind..behind + length as usize)?;
            input.get(behind + length as usize + 1)?;
            Some((Reply::Text(String::from_utf8_lossy(text).into_owned()), behind + length as usize + 2))
        }
        (b'*', Ok(count)) => {
            let (mut parts, mut at) = (Vec::new(), behind);
            for _ in 0..count {
                let (part, length) = parse(&input[at..])?;
                parts.push(part);
                at += length;
            }
            Some((Reply::Array(parts), at))
        }
        _ => panic!("no RESP2: {:?}", String::from_utf8_lossy(input)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_cut_off_one_by_one() {
        let mut input = b"*2\r\n$1\r\nk\r\n*-1\r\n:7\r\n-ERR no\r\n$3\r\nab".to_vec();
        let pair = Reply::Array(vec![Reply::Text("k".into()), Reply::Null]);
        assert_eq!(Reply::take(&mut input), Some(pair));
        assert_eq!(Reply::take(&mut input).unwrap().text(), Some("7"));
        assert_eq!(Reply::take(&mut input), Some(Reply::Error("ERR no".into())));
        assert_eq!(Reply::take(&mut input), None);
    }
}
