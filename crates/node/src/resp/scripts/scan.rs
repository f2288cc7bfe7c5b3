//! A look at a text before Lua compiles it: how long that will take.
//!
//! Lua's compiler is not linear. It walks a list of jumps for each `and`, `or`, `elseif` and `break`; it looks for each name among the variables of
//! every function around it; and its tables of strings and constants hash without a secret, so that names can be made to meet in one chain.
//! A text of 1 MiB can keep it busy for a minute, and nothing can interrupt it. So this reads the words of the text as Lua will, adds up
//! those walks, and refuses what would take too long. It never counts less than Lua walks up to the first error that Lua finds.

use std::collections::HashSet;

/// A text that is shorter is not looked at: it takes some ms at most.
const SHORT_BYTES: usize = 8 << 10;
/// Steps, each of about a ns, that a text may cost beside being read.
const MOST_STEPS: u64 = 400_000_000;
/// What one step along a list of jumps costs, and one along a chain of hashes: they are all over the memory.
const JUMP_STEPS: u64 = 2;
const CHAIN_STEPS: u64 = 5;
/// Variables that a function may have.
const MOST_LOCALS: u64 = 200;

/// The line at which a text becomes too much, if it does.
pub fn too_complex(text: &[u8]) -> Option<u32> {
    if text.len() < SHORT_BYTES {
        return None;
    }
    let mut scan = Scan { words: Words { text, at: 0, line: 1 }, ..Scan::default() };
    scan.blocks.push(Block::new(Kind::Function));
    while let Some(word) = scan.words.next() {
        scan.take(&word);
        if scan.steps > MOST_STEPS {
            return Some(scan.words.line);
        }
        // What closes nothing is where Lua stops reading.
        if scan.blocks.is_empty() {
            return None;
        }
    }
    None
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Function,
    If,
    /// A loop, out of which `break` leads.
    Loop,
    Other,
}

/// A block that is open.
struct Block {
    kind: Kind,
    /// `elseif`s of an `if`, `break`s of a loop.
    jumps: u64,
    /// The `and`s and `or`s of the expression around a function.
    chain: u64,
    /// Brackets that are open around a function.
    brackets: u32,
    /// Names in a function.
    names: u64,
    constants: Chains,
}

impl Block {
    fn new(kind: Kind) -> Block {
        Block { kind, jumps: 0, chain: 0, brackets: 0, names: 0, constants: Chains::default() }
    }
}

#[derive(Default)]
struct Scan<'a> {
    words: Words<'a>,
    blocks: Vec<Block>,
    steps: u64,
    /// `and`s and `or`s of this expression so far.
    chain: u64,
    /// Brackets that are open in this function.
    brackets: u32,
    /// Whether the last word can end an expression.
    operand: bool,
    /// `while` and `for`, whose `do` comes.
    loops: u32,
    strings: Chains,
}

impl Scan<'_> {
    fn take(&mut self, word: &Word) {
        let ends = matches!(
            word,
            Word::Name(_) | Word::Text(_) | Word::Number(_) | Word::Sign(b')' | b']' | b'}') | Word::Vararg
        );
        match word {
            Word::Name(name) => self.name(name),
            Word::Text(text) => self.constant(text),
            Word::Number(number) => {
                let bits = number.to_bits();
                let hash = (bits as u32).wrapping_add((bits >> 32) as u32);
                let steps = self.function().constants.find(&bits.to_le_bytes(), hash, true);
                self.steps += steps * CHAIN_STEPS;
            }
            Word::Sign(b'(' | b'[' | b'{') => self.brackets += 1,
            Word::Sign(b')' | b']' | b'}') => self.brackets = self.brackets.saturating_sub(1),
            Word::Sign(b'=' | b';') if self.brackets == 0 => self.chain = 0,
            Word::Sign(_) | Word::Vararg => {}
        }
        self.operand = match word {
            Word::Name(name) if is_keyword(name) => matches!(&name[..], b"nil" | b"true" | b"false" | b"end"),
            _ => ends,
        };
    }

    /// The function that is being read.
    fn function(&mut self) -> &mut Block {
        let function = self.blocks.iter_mut().rev().find(|block| block.kind == Kind::Function);
        function.expect("the text itself is one")
    }

    fn name(&mut self, name: &[u8]) {
        match name {
            b"and" | b"or" => {
                self.chain += 1;
                self.steps += self.chain * JUMP_STEPS;
            }
            b"function" => {
                let mut block = Block::new(Kind::Function);
                (block.chain, block.brackets) =
                    (std::mem::take(&mut self.chain), std::mem::take(&mut self.brackets));
                self.blocks.push(block);
            }
            b"if" => self.open(Kind::If),
            b"repeat" => self.open(Kind::Loop),
            b"while" | b"for" => {
                self.chain = 0;
                self.loops += 1;
            }
            b"do" => {
                let kind = if self.loops > 0 { Kind::Loop } else { Kind::Other };
                self.loops = self.loops.saturating_sub(1);
                self.open(kind);
            }
            b"elseif" | b"else" => self.jump(Kind::If),
            b"break" => self.jump(Kind::Loop),
            b"end" | b"until" => {
                self.chain = 0;
                if let Some(closed) = self.blocks.pop()
                    && closed.kind == Kind::Function
                {
                    (self.chain, self.brackets) = (closed.chain, closed.brackets);
                }
            }
            b"then" | b"local" | b"return" => self.chain = 0,
            _ if is_keyword(name) => {}
            _ => self.identifier(name),
        }
    }

    fn open(&mut self, kind: Kind) {
        self.chain = 0;
        self.blocks.push(Block::new(kind));
    }

    /// A jump that joins the list of the innermost block of a kind.
    fn jump(&mut self, kind: Kind) {
        self.chain = 0;
        if let Some(block) = self.blocks.iter_mut().rev().find(|block| block.kind == kind) {
            block.jumps += 1;
            self.steps += block.jumps * JUMP_STEPS;
        }
    }

    fn identifier(&mut self, name: &[u8]) {
        // Two operands without a sign between them are two statements.
        if self.operand && self.brackets == 0 {
            self.chain = 0;
        }
        self.function().names += 1;
        let functions = self.blocks.iter().filter(|block| block.kind == Kind::Function);
        self.steps += functions.map(|function| 1 + function.names.min(MOST_LOCALS)).sum::<u64>();
        self.constant(name);
    }

    /// A string goes through the table of all strings and the one of its function's constants.
    fn constant(&mut self, text: &[u8]) {
        let hash = hash(text);
        let chain = self.strings.find(text, hash, false) + self.function().constants.find(text, hash, false);
        self.steps += chain * CHAIN_STEPS + text.len() as u64 / 8;
    }
}

/// A table that hashes as Lua's do: how long its chains are.
#[derive(Default)]
struct Chains {
    held: HashSet<(Vec<u8>, bool)>,
    hashes: Vec<(u32, bool)>,
    lengths: Vec<u32>,
}

impl Chains {
    fn place(size: usize, hash: u32, is_number: bool) -> usize {
        let size = size as u32;
        (if is_number { hash % ((size - 1) | 1) } else { hash & (size - 1) }) as usize
    }

    /// The steps of looking for something, which is there from now on.
    fn find(&mut self, key: &[u8], hash: u32, is_number: bool) -> u64 {
        if self.hashes.len() >= self.lengths.len() {
            self.lengths = vec![0; (self.lengths.len() * 2).max(32)];
            for (hash, is_number) in &self.hashes {
                let place = Self::place(self.lengths.len(), *hash, *is_number);
                self.lengths[place] += 1;
            }
        }
        let place = Self::place(self.lengths.len(), hash, is_number);
        let steps = self.lengths[place].into();
        if self.held.insert((key.to_vec(), is_number)) {
            self.hashes.push((hash, is_number));
            self.lengths[place] += 1;
        }
        steps
    }
}

/// Lua's hash of a string, which reads 32 of its bytes at most.
fn hash(text: &[u8]) -> u32 {
    let step = (text.len() >> 5) + 1;
    let mut hash = text.len() as u32;
    let mut at = text.len();
    while at >= step {
        hash ^= (hash << 5).wrapping_add(hash >> 2).wrapping_add(text[at - 1].into());
        at -= step;
    }
    hash
}

fn is_keyword(name: &[u8]) -> bool {
    matches!(
        name,
        b"and"
            | b"break"
            | b"do"
            | b"else"
            | b"elseif"
            | b"end"
            | b"false"
            | b"for"
            | b"function"
            | b"if"
            | b"in"
            | b"local"
            | b"nil"
            | b"not"
            | b"or"
            | b"repeat"
            | b"return"
            | b"then"
            | b"true"
            | b"until"
            | b"while"
    )
}

enum Word {
    /// A name or a keyword.
    Name(Vec<u8>),
    /// A string, with its escapes resolved.
    Text(Vec<u8>),
    Number(f64),
    Vararg,
    /// Anything else that matters by its first byte; `==` and its like are none of these.
    Sign(u8),
}

/// The words of a text.
#[derive(Default)]
struct Words<'a> {
    text: &'a [u8],
    at: usize,
    line: u32,
}

impl Words<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn next(&mut self) -> Option<Word> {
        loop {
            let byte = *self.text.get(self.at)?;
            match byte {
                b'\n' => {
                    self.line += 1;
                    self.at += 1;
                }
                b'-' if self.peek(1) == b'-' => {
                    self.at += 2;
                    if !(self.peek(0) == b'[' && self.long().is_some()) {
                        let rest = &self.text[self.at..];
                        self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                    }
                }
                _ if byte.is_ascii_whitespace() || byte == 0x0b => self.at += 1,
                _ => return Some(self.word(byte)),
            }
        }
    }

    fn word(&mut self, byte: u8) -> Word {
        if byte.is_ascii_alphabetic() || byte == b'_' {
            return Word::Name(self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
        }
        if byte.is_ascii_digit() || byte == b'.' && self.peek(1).is_ascii_digit() {
            return self.number();
        }
        match byte {
            b'"' | b'\'' => return Word::Text(self.quoted(byte)),
            b'[' if matches!(self.peek(1), b'[' | b'=') => {
                if let Some(text) = self.long() {
                    return Word::Text(text);
                }
            }
            _ => {}
        }
        let pair = matches!((byte, self.peek(1)), (b'=' | b'<' | b'>' | b'~', b'=') | (b'.', b'.'));
        if pair && byte == b'.' && self.peek(2) == b'.' {
            self.at += 3;
            return Word::Vararg;
        }
        self.at += 1 + usize::from(pair);
        Word::Sign(if pair { 0 } else { byte })
    }

    fn take_while(&mut self, belongs: impl Fn(u8) -> bool) -> Vec<u8> {
        let rest = &self.text[self.at..];
        let len = rest.iter().position(|byte| !belongs(*byte)).unwrap_or(rest.len());
        self.at += len;
        rest[..len].to_vec()
    }

    fn number(&mut self) -> Word {
        let mut digits = self.take_while(|byte| byte.is_ascii_digit() || byte == b'.');
        if matches!(self.peek(0), b'e' | b'E') {
            digits.push(b'e');
            self.at += 1;
            if matches!(self.peek(0), b'+' | b'-') {
                digits.push(self.peek(0));
                self.at += 1;
            }
        }
        digits.extend(self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
        let text = String::from_utf8_lossy(&digits);
        let hexadecimal = text.strip_prefix("0x").or(text.strip_prefix("0X"));
        let number = match hexadecimal {
            Some(digits) => u64::from_str_radix(digits, 16).unwrap_or(u64::MAX) as f64,
            None => text.parse().unwrap_or(0.0),
        };
        Word::Number(number)
    }

    /// A string in brackets, or the comment that is one. `None`: none begins here, or it does not end.
    fn long(&mut self) -> Option<Vec<u8>> {
        let equals = self.text[self.at + 1..].iter().take_while(|byte| **byte == b'=').count();
        if self.peek(equals + 1) != b'[' {
            return None;
        }
        let start = self.at + equals + 2;
        let mut at = start;
        while let Some(next) = self.text[at..].iter().position(|byte| *byte == b']') {
            at += next + 1;
            let closing = self.text[at..].iter().take_while(|byte| **byte == b'=').count();
            if closing == equals && self.text.get(at + closing) == Some(&b']') {
                let inside = &self.text[start..at - 1];
                self.line += inside.iter().filter(|byte| **byte == b'\n').count() as u32;
                self.at = at + closing + 1;
                let inside = inside.strip_prefix(b"\r\n").or(inside.strip_prefix(b"\n")).unwrap_or(inside);
                return Some(inside.to_vec());
            }
            at += closing;
        }
        self.at = self.text.len();
        None
    }

    fn quoted(&mut self, quote: u8) -> Vec<u8> {
        let mut inside = Vec::new();
        self.at += 1;
        while let Some(byte) = self.text.get(self.at).copied() {
            self.at += 1;
            match byte {
                _ if byte == quote => break,
                b'\n' => break,
                b'\\' => {
                    let escaped = self.peek(0);
                    if escaped.is_ascii_digit() {
                        let digits = (0..3).take_while(|ahead| self.peek(*ahead).is_ascii_digit()).count();
                        let code =
                            (0..digits).fold(0, |code, ahead| code * 10 + u32::from(self.peek(ahead) - b'0'));
                        inside.push(code as u8);
                        self.at += digits;
                        continue;
                    }
                    self.line += u32::from(escaped == b'\n');
                    self.at += 1;
                    inside.push(match escaped {
                        b'a' => 7,
                        b'b' => 8,
                        b'f' => 12,
                        b'n' => 10,
                        b'r' => 13,
                        b't' => 9,
                        b'v' => 11,
                        other => other,
                    });
                }
                other => inside.push(other),
            }
        }
        inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn filled(before: &str, piece: &str, after: &str) -> String {
        format!("{before}{}{after}", piece.repeat((MIB - before.len() - after.len()) / piece.len()))
    }

    #[test]
    fn what_takes_lua_long_to_compile_is_refused() {
        for (before, piece, after) in [
            ("local x return ", "x and ", "x"),
            ("local x return ", "x or ", "x"),
            ("local x return x", " and {x = 1, f(x, x)}", ""),
            ("local x return x", " and function() local x = x end", ""),
            ("local x if x then ", "elseif x then ", "end"),
            ("local x while x do ", "if x then break end ", "end"),
        ] {
            assert!(too_complex(filled(before, piece, after).as_bytes()).is_some(), "{before}{piece}{after}");
        }
        let nest = "local a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y = 1 function z() ".repeat(190);
        assert!(too_complex(filled(&nest, "z=z ", &"end ".repeat(190)).as_bytes()).is_some());
        // Letters where Lua's hash does not look, so that all meet in one chain.
        let texts = (0..15_000u32).map(|n| {
            let mut text = [b'x'; 64];
            for bit in 0..15 {
                text[64 - 2 - 3 * bit] = if n >> bit & 1 == 1 { b'y' } else { b'x' };
            }
            format!("'{}',", String::from_utf8_lossy(&text))
        });
        let texts = format!("return {{{}}}", texts.collect::<String>());
        assert!(too_complex(texts.as_bytes()).is_some());
    }

    #[test]
    fn long_texts_of_ordinary_code_are_not() {
        for (before, piece, after) in [
            ("local x ", "x = x and x or x ", ""),
            ("local x ", "if x and x or x then x = x end ", ""),
            ("local x ", "x = {a = 1, 'b', [c] = d} f(x) -- and and\n", ""),
            ("local x ", "while x do if x then break elseif x then x = 1 else x = 2 end end ", ""),
            ("return {", "'some text', 1.5, ", "}"),
            ("return [==[", "and and or elseif break ", "]==]"),
            (
                "local t = {} ",
                "function t.f(a, b, c) local d = a + b return function() return c, d end end ",
                "return t",
            ),
        ] {
            assert_eq!(too_complex(filled(before, piece, after).as_bytes()), None, "{before}{piece}{after}");
        }
        let names: String = (0..60_000).map(|n| format!("x = name_{n} ")).collect();
        assert_eq!(too_complex(names.as_bytes()), None);
        let numbers: String = (0..60_000).map(|n| format!("{n}.25, ")).collect();
        assert_eq!(too_complex(format!("return {{{numbers}}}").as_bytes()), None);
    }
}
