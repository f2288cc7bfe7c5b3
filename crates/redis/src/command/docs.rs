//! What `COMMAND DOCS` tells beside a command's row: what it costs, what changed and when, and the grammar of its arguments. Facts as Redis 7.0
//! has them, but for costs that are others here; of commands that it has not, our own.
//!
//! An entry's `docs` are lines: a field and its value (`complexity`, `doc_flags`, `deprecated_since`, `replaced_by`, `history`; of subcommands also
//! `summary` and `since`), or an argument. An argument's line begins with as many dashes as it is deep: those behind it with more of them are its
//! parts. Then its name and its type; `#0` which specification of keys it is of, `'EX'` the word in front of it or in its place, `@6.2.0` since
//! when, `~7.0.0` until when, and flags. Spaces in front of a line mean nothing.

/// What is told of one command or subcommand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Docs {
    lines: &'static str,
}

/// An argument, and the lines of its parts.
#[derive(Clone, Debug)]
pub struct Argument {
    /// Its line, behind the dashes.
    line: &'static str,
    /// What it consists of, or can be.
    pub parts: Arguments,
}

/// Arguments one after another.
#[derive(Clone, Debug)]
pub struct Arguments {
    lines: &'static str,
    depth: usize,
}

impl Docs {
    /// The documentation in an entry's text.
    pub fn of(lines: &'static str) -> Docs {
        Docs { lines }
    }

    /// The value of a field, if it is told.
    pub fn field(self, name: &str) -> Option<&'static str> {
        self.fields(name).next()
    }

    /// All values of a field that may stand several times.
    pub fn fields(self, name: &str) -> impl Iterator<Item = &'static str> + Clone {
        self.lines.lines().filter_map(move |line| line.trim_start().strip_prefix(name)?.strip_prefix(' '))
    }

    pub fn arguments(self) -> Arguments {
        Arguments { lines: self.lines, depth: 1 }
    }
}

/// How deep an argument's line is; 0: it is none.
fn depth(line: &str) -> usize {
    let line = line.trim_start();
    line.len() - line.trim_start_matches('-').len()
}

impl Iterator for Arguments {
    type Item = Argument;

    fn next(&mut self) -> Option<Argument> {
        loop {
            let (line, behind) = self.lines.split_once('\n')?;
            self.lines = behind;
            if depth(line) == self.depth {
                let line = line.trim_start();
                let mut end = 0;
                for part in behind.split_inclusive('\n').take_while(|part| depth(part) > self.depth) {
                    end += part.len();
                }
                self.lines = &behind[end..];
                let parts = Arguments { lines: &behind[..end], depth: self.depth + 1 };
                return Some(Argument { line: line[self.depth..].trim_start(), parts });
            }
        }
    }
}

impl Argument {
    fn words(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        self.line.split(' ').skip(2)
    }

    fn marked(&self, mark: char) -> Option<&'static str> {
        self.words().find_map(|word| word.strip_prefix(mark))
    }

    /// What it is called.
    pub fn name(&self) -> &'static str {
        self.line.split(':').next().expect("a split has a first part")
    }

    /// `key`, `string`, `integer`, `oneof`, `block`, ..
    pub fn kind(&self) -> &'static str {
        self.line.split(' ').nth(1).expect("a line has a name and a type")
    }

    /// Of which of the command's specifications of keys it is.
    pub fn key_spec(&self) -> Option<i64> {
        self.marked('#').map(|number| number.parse().expect("a mark `#` has a number"))
    }

    /// The word in front of it, or in its place.
    pub fn token(&self) -> Option<&'static str> {
        self.marked('\'').map(|token| token.trim_end_matches('\''))
    }

    /// Since which version.
    pub fn since(&self) -> Option<&'static str> {
        self.marked('@')
    }

    /// Since which version something else is better.
    pub fn deprecated_since(&self) -> Option<&'static str> {
        self.marked('~')
    }

    /// `optional`, `multiple`, `multiple_token`
    pub fn flags(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        self.words().filter(|word| word.starts_with(|first: char| first.is_ascii_lowercase()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::ids;
    use crate::commands::op;

    fn of(named: &ids::Named) -> Docs {
        Docs::of(named.sub.map_or(named.spec.docs, |sub| sub.docs))
    }

    fn shown(arguments: Arguments) -> String {
        let one = |argument: Argument| match argument.parts.clone().count() {
            0 => format!("{}/{}", argument.name(), argument.kind()),
            _ => format!("{}/{}({})", argument.name(), argument.kind(), shown(argument.parts)),
        };
        arguments.map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn arguments_hold_their_parts() {
        let zadd = Docs::of(op::ZADD.spec().docs);
        assert_eq!(zadd.fields("history").count(), 3);
        assert_eq!(zadd.field("since"), None);
        let told = "key/key condition/oneof(nx/pure-token xx/pure-token) comparison/oneof(gt/pure-token lt/pure-token) \
            change/pure-token increment/pure-token score_member/block(score/double member/string)";
        assert_eq!(shown(zadd.arguments()), told);
        let limit = Docs::of(op::HW_RANGE.spec().docs).arguments().nth(3).unwrap();
        assert_eq!((limit.token(), limit.flags().collect::<Vec<_>>()), (Some("LIMIT"), vec!["optional"]));
        assert_eq!((limit.since(), limit.deprecated_since(), limit.key_spec()), (None, None, None));
    }

    /// The least and the most words that these are; `None`: any number.
    fn words(arguments: Box<dyn Iterator<Item = Argument>>) -> (usize, Option<usize>) {
        let mut all = (0, Some(0));
        for argument in arguments {
            let token = usize::from(argument.token().is_some());
            let (least, most) = match argument.kind() {
                "pure-token" => (1, Some(1)),
                "block" => {
                    let (least, most) = words(Box::new(argument.parts.clone()));
                    (least + token, most.map(|most| most + token))
                }
                "oneof" => {
                    let each: Vec<_> =
                        argument.parts.clone().map(|part| words(Box::new(std::iter::once(part)))).collect();
                    let most = each.iter().map(|(_, most)| *most).collect::<Option<Vec<_>>>();
                    let least = each.iter().map(|(least, _)| *least).min().unwrap();
                    (least + token, most.and_then(|most| most.into_iter().max()).map(|most| most + token))
                }
                _ => (1 + token, Some(1 + token)),
            };
            let many = argument.flags().any(|flag| flag.starts_with("multiple"));
            let may_lack = argument.flags().any(|flag| flag == "optional");
            all.0 += if may_lack { 0 } else { least };
            all.1 = all.1.zip(most).filter(|_| !many).map(|(all, most)| all + most);
        }
        all
    }

    /// A command whose row says that it takes another number of words than its grammar is told wrongly.
    #[test]
    fn every_grammar_fits_its_commands_arity() {
        // Redis's own grammars that say more or less than it takes, or rows that stand for several commands.
        let loose = [
            "latency|help",
            "object",
            "sentinel",
            "debug",
            "memory",
            "hw.memory",
            "client|kill",
            "command|getkeys",
            "command|getkeysandflags",
            "quit",
            "hw.session|new",
        ];
        let mut wrong = Vec::new();
        for named in ids::all().filter(|named| !loose.contains(&named.full_name())) {
            let arity = named.sub.map_or(named.spec.arity, |sub| sub.arity);
            if named.sub.is_none() && !named.spec.subcommands.is_empty() {
                continue;
            }
            let name = usize::from(named.sub.is_some()) + 1;
            let (least, most) = words(Box::new(of(&named).arguments()));
            let fits = least + name == arity.unsigned_abs() as usize
                && (most.map(|most| most + name) == Some(least + name)) == (arity > 0);
            wrong.extend((!fits).then(|| format!("{} {least} {most:?} {arity}", named.full_name())));
        }
        assert_eq!(wrong, Vec::<String>::new());
    }

    #[test]
    fn every_key_is_of_a_specification() {
        fn keys(arguments: Arguments) -> Vec<i64> {
            let own = |argument: Argument| argument.key_spec().into_iter().chain(keys(argument.parts));
            arguments.flat_map(own).collect()
        }
        let mut wrong = Vec::new();
        for named in ids::all().filter(|named| named.sub.is_none()) {
            let count = named.spec.specs.split(';').filter(|spec| !spec.is_empty()).count() as i64;
            let keys = keys(of(&named).arguments());
            wrong.extend(keys.iter().filter(|key| **key >= count).map(|_| named.full_name()));
        }
        assert_eq!(wrong, Vec::<&str>::new());
    }
}
