//! The first line of a script, `#!lua flags=..`, and of a library, `#!lua name=..`.

use super::Failed;

/// What a script may do, by its first line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// It has a first line: flags count.
    pub declared: bool,
    /// It writes nothing.
    pub no_writes: bool,
    /// Ours: when it fails, nothing of its transaction stands.
    pub roll_back: bool,
}

impl Flags {
    /// Adds a flag by its name; whether there is one. Those that mean nothing here are Redis's, and are taken.
    pub fn add(&mut self, name: &[u8]) -> bool {
        match name {
            b"no-writes" => self.no_writes = true,
            b"roll-back" => self.roll_back = true,
            b"allow-oom" | b"allow-stale" | b"no-cluster" | b"allow-cross-slot-keys" => {}
            _ => return false,
        }
        true
    }
}

/// Reads a script's first line; the flags, and the text that Lua compiles: a line that is there stays as an empty one.
pub fn of_script(text: &[u8]) -> Result<(Flags, &[u8]), Failed> {
    let mut flags = Flags::default();
    if !text.starts_with(b"#!") {
        return Ok((flags, text));
    }
    let Some(end) = text.iter().position(|byte| *byte == b'\n') else {
        return Err(Failed::text("ERR Invalid script shebang"));
    };
    let (line, code) = text.split_at(end);
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let engine = words.next().unwrap_or_default();
    if engine != b"#!lua" {
        return Err(Failed::quoting("ERR Unexpected engine in script shebang: ", engine, ""));
    }
    flags.declared = true;
    for word in words {
        let Some(list) = word.strip_prefix(b"flags=") else {
            return Err(Failed::quoting("ERR Unknown lua shebang option: ", word, ""));
        };
        for flag in list.split(|byte| *byte == b',').filter(|flag| !flag.is_empty()) {
            if !flags.add(flag) {
                return Err(Failed::quoting("ERR Unexpected flag in script shebang: ", flag, ""));
            }
        }
    }
    Ok((flags, code))
}

/// Reads a library's first line; its name, and the text that Lua compiles.
pub fn of_library(text: &[u8]) -> Result<(Vec<u8>, &[u8]), Failed> {
    if !text.starts_with(b"#!") {
        return Err(Failed::text("ERR Missing library metadata"));
    }
    let Some(end) = text.iter().position(|byte| *byte == b'\n') else {
        return Err(Failed::text("ERR Invalid library metadata"));
    };
    let (line, code) = text.split_at(end);
    let words = quoted_words(line).ok_or(Failed::text("ERR Invalid library metadata"))?;
    let mut words = words.iter();
    let engine = words.next().and_then(|word| word.strip_prefix(b"#!")).unwrap_or_default();
    let mut name = None;
    for word in words {
        let Some(given) = word.strip_prefix(b"name=") else {
            return Err(Failed::quoting("ERR Invalid metadata value given: ", word, ""));
        };
        if name.replace(given.to_vec()).is_some() {
            return Err(Failed::text("ERR Invalid metadata value, name argument was given multiple times"));
        }
    }
    let name = name.ok_or(Failed::text("ERR Library name was not given"))?;
    if !is_name(&name) {
        return Err(Failed::text(BAD_NAME));
    }
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err(Failed::quoting("ERR Engine '", engine, "' not found"));
    }
    Ok((name, code))
}

/// Words as Redis's configuration has them: blanks inside of quotes are none, and `"` knows escapes. `None`: a quote is not closed, or something
/// stands right behind one.
fn quoted_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut words, mut rest) = (Vec::new(), line.iter().copied().peekable());
    loop {
        while rest.next_if(u8::is_ascii_whitespace).is_some() {}
        if rest.peek().is_none() {
            return Some(words);
        }
        let mut word = Vec::new();
        while let Some(byte) = rest.next_if(|byte| !byte.is_ascii_whitespace()) {
            if byte != b'"' && byte != b'\'' {
                word.push(byte);
                continue;
            }
            loop {
                match rest.next()? {
                    close if close == byte => break,
                    b'\\' if byte == b'"' || rest.peek() == Some(&b'\'') => match rest.next()? {
                        b'n' if byte == b'"' => word.push(b'\n'),
                        b'r' if byte == b'"' => word.push(b'\r'),
                        b't' if byte == b'"' => word.push(b'\t'),
                        other => word.push(other),
                    },
                    other => word.push(other),
                }
            }
            if rest.peek().is_some_and(|next| !next.is_ascii_whitespace()) {
                return None;
            }
        }
        words.push(word);
    }
}

/// What is said of a name that is none.
pub const BAD_NAME: &str = "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

/// Whether a library or function may be called so.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}
