//! Commands, and how they are written.

/// A command and its words, encoded as it is built.
///
/// ```
/// use highwater_remote::cmd;
///
/// let set = cmd("SET").arg("visits").arg(1).arg("EX").arg(60);
/// # let _ = set;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    words: usize,
    bytes: Vec<u8>,
}

/// Begins a command with its name.
pub fn cmd(name: &str) -> Command {
    Command { words: 0, bytes: Vec::new() }.arg(name)
}

impl Command {
    /// One more word.
    pub fn arg(mut self, word: impl Word) -> Command {
        word.write(&mut |bytes| self.push(bytes));
        self
    }

    /// More words.
    pub fn args<W: Word>(self, words: impl IntoIterator<Item = W>) -> Command {
        words.into_iter().fold(self, Command::arg)
    }

    /// This command behind others' words: as `HW.ONCE` takes it.
    pub(crate) fn behind(&self, first: Command) -> Command {
        let mut joined = first;
        joined.words += self.words;
        joined.bytes.extend_from_slice(&self.bytes);
        joined
    }

    /// Bytes that it takes on the wire, about.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + 16
    }

    /// As the server reads it.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("*{}\r\n", self.words).as_bytes());
        out.extend_from_slice(&self.bytes);
    }

    fn push(&mut self, word: &[u8]) {
        self.words += 1;
        self.bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        self.bytes.extend_from_slice(word);
        self.bytes.extend_from_slice(b"\r\n");
    }
}

/// What may be a word of a command.
pub trait Word {
    /// Hands its bytes to `put`.
    fn write(&self, put: &mut dyn FnMut(&[u8]));
}

impl<W: Word + ?Sized> Word for &W {
    fn write(&self, put: &mut dyn FnMut(&[u8])) {
        (**self).write(put);
    }
}

impl Word for str {
    fn write(&self, put: &mut dyn FnMut(&[u8])) {
        put(self.as_bytes());
    }
}

impl Word for String {
    fn write(&self, put: &mut dyn FnMut(&[u8])) {
        put(self.as_bytes());
    }
}

impl Word for [u8] {
    fn write(&self, put: &mut dyn FnMut(&[u8])) {
        put(self);
    }
}

impl<const N: usize> Word for [u8; N] {
    fn write(&self, put: &mut dyn FnMut(&[u8])) {
        put(self);
    }
}

impl Word for Vec<u8> {
    fn write(&self, put: &mut dyn FnMut(&[u8])) {
        put(self);
    }
}

macro_rules! numbers {
    ($($number:ty),+) => {
        $(impl Word for $number {
            fn write(&self, put: &mut dyn FnMut(&[u8])) {
                put(self.to_string().as_bytes());
            }
        })+
    };
}

numbers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, f32, f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_may_be_any_bytes() {
        let mut bytes = Vec::new();
        cmd("SET").arg(b"\r\n\0").arg(-7i64).args(["", "x"]).encode(&mut bytes);
        assert_eq!(bytes, b"*5\r\n$3\r\nSET\r\n$3\r\n\r\n\0\r\n$2\r\n-7\r\n$0\r\n\r\n$1\r\nx\r\n");
        let mut once = Vec::new();
        cmd("GET").arg("a").behind(cmd("HW.ONCE").arg(1).arg(2)).encode(&mut once);
        assert_eq!(once, b"*5\r\n$7\r\nHW.ONCE\r\n$1\r\n1\r\n$1\r\n2\r\n$3\r\nGET\r\n$1\r\na\r\n");
    }
}
