//! Links of the documents, and what they name in the source.

use std::fs;
use std::path::{Path, PathBuf};

use super::root;

/// `[text](target)` in a document. Blocks of code hold none.
#[derive(Debug)]
pub struct Link {
    /// Relative to the root.
    pub document: String,
    /// What stands in front of it in its paragraph.
    pub before: String,
    pub text: String,
    pub target: String,
}

/// Every Markdown document for readers, relative to the root.
pub fn documents() -> Vec<String> {
    let mut found: Vec<String> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(String::from).into();
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            if root().join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path.to_str().unwrap().to_string());
            }
        }
    }
    found.sort();
    found
}

/// All links of a document.
pub fn links(document: &str) -> Vec<Link> {
    let mut in_code = false;
    let mut paragraphs = vec![String::new()];
    for line in super::read(document).lines() {
        in_code ^= line.trim_start().starts_with("```");
        match paragraphs.last_mut() {
            Some(last) if !in_code && !line.trim().is_empty() => *last += &format!("{} ", line.trim()),
            _ => paragraphs.push(String::new()),
        }
    }
    paragraphs.iter().flat_map(|paragraph| links_in(document, paragraph)).collect()
}

fn links_in(document: &str, paragraph: &str) -> Vec<Link> {
    let link = |(middle, _): (usize, &str)| {
        let start = paragraph[..middle].rfind('[')?;
        let end = middle + paragraph[middle..].find(')')?;
        Some(Link {
            document: document.to_string(),
            before: paragraph[..start].to_string(),
            text: paragraph[start + 1..middle].to_string(),
            target: paragraph[middle + 2..end].to_string(),
        })
    };
    paragraph.match_indices("](").filter_map(link).collect()
}

impl Link {
    /// The file or folder that it leads to, relative to the root; `None`: out of the repository.
    pub fn file(&self) -> Option<PathBuf> {
        if self.target.contains("://") {
            return None;
        }
        let path = self.target.split('#').next().unwrap();
        let mut file = PathBuf::from(&self.document);
        if !path.is_empty() {
            file.pop();
        }
        for part in Path::new(path).components() {
            match part.as_os_str().to_str().unwrap() {
                ".." => assert!(file.pop(), "{self:?} leaves the repository"),
                part => file.push(part),
            }
        }
        Some(file)
    }

    /// What is wrong with it, if anything is.
    pub fn fault(&self) -> Option<String> {
        let file = self.file()?;
        if !root().join(&file).exists() {
            return Some(format!("{}: there is no {}", self.document, file.display()));
        }
        if let Some((_, anchor)) = self.target.split_once('#')
            && !headings(file.to_str().unwrap()).iter().any(|known| known == anchor)
        {
            return Some(format!("{}: {} has no heading #{anchor}", self.document, file.display()));
        }
        let item = self.item()?;
        let lacks = item.split("::").find(|part| !is_in(&file, part, item.ends_with(part)))?;
        Some(format!("{}: {} does not define {lacks} of {item}", self.document, file.display()))
    }

    /// The item that it names, if it leads to source.
    pub fn item(&self) -> Option<&str> {
        let item = self.text.strip_prefix('`')?.strip_suffix('`')?;
        (self.target.ends_with(".rs") && !item.contains(['/', '.', ' '])).then_some(item)
    }
}

/// Whether a file defines the last part of an item's path. Of the parts before it types have to be mentioned, since their
/// methods may be in a file of their own; crates and modules need not.
fn is_in(file: &Path, part: &str, last: bool) -> bool {
    let source = fs::read_to_string(root().join(file)).unwrap();
    if !last {
        return part.starts_with(char::is_lowercase) || mentions(&source, part);
    }
    let module = file.file_stem().is_some_and(|stem| stem == part)
        || file.ends_with(Path::new(part).join("mod.rs")) && part.starts_with(char::is_lowercase);
    module || source.lines().any(|line| defines(line, part))
}

fn defines(line: &str, item: &str) -> bool {
    const KINDS: [&str; 9] =
        ["fn ", "struct ", "enum ", "trait ", "const ", "static ", "type ", "mod ", "macro_rules! "];
    let named = |kind: &str| {
        let (before, after) = line.split_once(kind)?;
        let rest = after.strip_prefix(item)?;
        Some(!before.contains("//") && !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
    };
    KINDS.iter().any(|kind| named(kind) == Some(true))
}

fn mentions(source: &str, word: &str) -> bool {
    source.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|known| known == word)
}

/// A document's headings as they stand in addresses.
fn headings(document: &str) -> Vec<String> {
    let text = super::read(document);
    let titles = text.lines().filter(|line| line.starts_with('#'));
    let address = |title: &str| {
        let title = title.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        kept.collect::<String>().replace(' ', "-")
    };
    titles.map(address).collect()
}
