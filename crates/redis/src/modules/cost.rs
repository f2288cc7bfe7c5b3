//! How long it may take to compile a module, told from its text: one that would take too long is refused before it is compiled.
//!
//! A compiler's work grows with the text, and in each function with two products: of its branches and of the variables that may have to be
//! passed along each of them, and of its branches with themselves. Measured, in seconds of a core:
//!
//! | function | bytes | s |
//! |---|---|---|
//! | 400 nested loops around 400 variables | 6 K | 0.15 |
//! | 1600 around 1600 | 25 K | 6.2 |
//! | 30,000 `if`s, one behind the other | 180 K | 6.2 |
//! | 20,000 loops, one behind the other, with a branch in each | 140 K | 26 |
//! | 40,000 nested blocks without a branch | 120 K | 0.1 |
//!
//! Code that compilers of other languages write has some hundred thousand such pairs in a function of a hundred KB.

use wasmparser::{Operator, Parser, Payload};

use super::super::errors::CommandError;
use super::compiled::bad;

/// Pairs of a branch and a variable, over all functions: some seconds of one core.
pub const MAX_PAIRS: u64 = 2 << 20;
/// So many pairs of two branches in one function take as long as one of a branch and a variable.
const BRANCHES_A_PAIR: u64 = 64;
/// Places that a function's tables of branches name, over all functions.
pub const MAX_BRANCHES: u64 = 1 << 16;
/// Functions of its own.
pub const MAX_FUNCTIONS: u64 = 20_000;
/// Segments of data and of elements, exports, imports, globals and types together: each call of a procedure goes through some of them.
pub const MAX_PARTS: u64 = 20_000;

/// The counts so far.
#[derive(Default)]
struct Cost {
    pairs: u64,
    branches: u64,
    functions: u64,
    parts: u64,
    /// For each type how many parameters a function of it has.
    parameters: Vec<u64>,
    /// The types of the module's own functions.
    types: Vec<u32>,
    /// Bodies so far.
    bodies: usize,
}

/// Checks what compiling a module costs. One that is none is let through: the compiler says what is wrong with it.
///
/// # Errors
/// [`CommandError::BadModule`]: what there is too much of.
pub fn check(bytes: &[u8]) -> Result<(), CommandError> {
    let mut cost = Cost::default();
    for payload in Parser::new(0).parse_all(bytes) {
        let Ok(payload) = payload else { return Ok(()) };
        if cost.add(payload).is_none() {
            return Ok(());
        }
        cost.bounded()?;
    }
    Ok(())
}

impl Cost {
    /// Counts a part. `None`: it is damaged.
    fn add(&mut self, payload: Payload<'_>) -> Option<()> {
        match payload {
            Payload::TypeSection(types) => {
                self.parts += u64::from(types.count());
                for group in types {
                    for of in group.ok()?.into_types() {
                        self.parameters.push(match &of.composite_type.inner {
                            wasmparser::CompositeInnerType::Func(of) => of.params().len() as u64,
                            _ => 0,
                        });
                    }
                }
            }
            Payload::ImportSection(imports) => self.parts += u64::from(imports.count()),
            Payload::FunctionSection(functions) => {
                self.functions += u64::from(functions.count());
                if self.functions <= MAX_FUNCTIONS {
                    self.types = functions.into_iter().collect::<Result<_, _>>().ok()?;
                }
            }
            Payload::ExportSection(exports) => self.parts += u64::from(exports.count()),
            Payload::GlobalSection(globals) => self.parts += u64::from(globals.count()),
            Payload::DataSection(segments) => self.parts += u64::from(segments.count()),
            Payload::ElementSection(segments) => self.parts += u64::from(segments.count()),
            Payload::CodeSectionEntry(body) => {
                let of = self.types.get(self.bodies).and_then(|of| self.parameters.get(*of as usize));
                self.bodies += 1;
                let mut variables = of.copied().unwrap_or(0);
                for locals in body.get_locals_reader().ok()? {
                    variables += u64::from(locals.ok()?.0);
                }
                let mut branches = 0u64;
                for operator in body.get_operators_reader().ok()? {
                    match operator.ok()? {
                        Operator::Loop { .. } | Operator::Br { .. } | Operator::BrIf { .. } => branches += 1,
                        Operator::If { .. } => branches += 2,
                        Operator::BrTable { targets } => {
                            branches += 1;
                            self.branches += u64::from(targets.len());
                        }
                        _ => {}
                    }
                }
                let pairs = branches.saturating_mul(variables + branches / BRANCHES_A_PAIR);
                self.pairs = self.pairs.saturating_add(pairs);
            }
            _ => {}
        }
        Some(())
    }

    fn bounded(&self) -> Result<(), CommandError> {
        for (count, most, what) in [
            (self.pairs, MAX_PAIRS, "pairs of a branch and a variable, or of branches"),
            (self.branches, MAX_BRANCHES, "places in its tables of branches"),
            (self.functions, MAX_FUNCTIONS, "functions"),
            (self.parts, MAX_PARTS, "types, imports, globals, exports and segments"),
        ] {
            if count > most {
                return Err(bad(format!("it takes too long to compile: it has more than {most} {what}")));
            }
        }
        Ok(())
    }
}
