//! Certificates and keys out of PEM files; a file that is no good is refused in plain words.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::dates::{self, Dates};

/// The curve P-521, as keys and certificates name it (1.3.132.0.35).
const P521: [u8; 7] = [0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23];
/// Editors of some systems begin UTF-8 with it.
const BOM: &[u8] = b"\xef\xbb\xbf";
/// A certificate that has less time left than this is warned of.
const SOON_DAYS: i64 = 14;

/// The things that a file may hold instead of a certificate, by its first words, and what to do.
const NO_CERTIFICATES: [(&str, &str); 5] = [
    (
        "-----BEGIN TRUSTED CERTIFICATE",
        "holds a TRUSTED CERTIFICATE, a form that only OpenSSL knows: `openssl x509 -in FILE -out NEW` makes a plain one",
    ),
    (
        "CERTIFICATE REQUEST-----",
        "holds a request for a certificate, which no authority has signed: name the file that the authority sent",
    ),
    (
        "-----BEGIN PKCS7",
        "holds PKCS #7: `openssl pkcs7 -print_certs -in FILE -out NEW` takes the certificates out",
    ),
    ("PRIVATE KEY-----", "holds a key, and no certificate"),
    ("PUBLIC KEY-----", "holds a public key, and no certificate"),
];
/// The same of keys.
const NO_KEYS: [(&str, &str); 5] = [
    (
        "-----BEGIN ENCRYPTED PRIVATE KEY",
        "holds a key that a passphrase protects, and a node has nobody to ask: `openssl pkey -in FILE -out NEW` writes it without one",
    ),
    (
        "Proc-Type: 4,ENCRYPTED",
        "holds a key that a passphrase protects, and a node has nobody to ask: `openssl pkey -in FILE -out NEW` writes it without one",
    ),
    ("-----BEGIN OPENSSH", "holds a key in OpenSSH's form: `ssh-keygen -p -m PKCS8 -f FILE` changes it"),
    ("-----BEGIN CERTIFICATE", "holds a certificate, and no key"),
    ("PUBLIC KEY-----", "holds a public key, and no private one"),
];

/// The certificates of a file: at least one.
///
/// # Errors
/// In words, naming the file; as all of these.
pub fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = read(file, "certificates")?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if found.is_empty() => Err(explain(file, &bytes, &NO_CERTIFICATES)
            .unwrap_or_else(|| format!("{} holds no certificate", file.display()))),
        Ok(found) => Ok(found),
        Err(error) => Err(format!("cannot read certificates from {}: {error}", file.display())),
    }
}

/// The certificates that somebody shows as its own: its first is of version 3, and of a key that can be used here.
pub fn own_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = certificates(file)?;
    let why = match dates::version(&found[0]) {
        Some(1 | 2) => {
            "is a certificate of version 1, which says nothing of hosts and is refused by TLS libraries of today: have it signed again with \
             extensions (`openssl x509 -req -extfile`), subjectAltName among them"
        }
        _ if contains(&found[0], &P521) => WRONG_CURVE,
        _ => return Ok(found),
    };
    Err(format!("{} {why}", file.display()))
}

const WRONG_CURVE: &str = "is of a key on the curve P-521, which this build cannot use: take one on P-256 or P-384, Ed25519, or RSA";

/// The first key of a file.
pub fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let bytes = read(file, "a private key")?;
    let protected = &NO_KEYS[..2];
    if let Some(why) = explain(file, &bytes, protected) {
        return Err(why);
    }
    let key = PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| {
        let other = format!("cannot read a private key from {}: {error}", file.display());
        explain(file, &bytes, &NO_KEYS).unwrap_or(other)
    })?;
    if contains(key.secret_der(), &P521) {
        return Err(format!("{} {WRONG_CURVE}", file.display()));
    }
    Ok(key)
}

/// The authorities that a file says to believe.
pub fn authorities(file: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(roots)
}

/// Warns of certificates that others refuse, or will soon.
pub fn warn_of_dates(file: &Path) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    let chain = certificates(file).unwrap_or_default();
    for dates in chain.iter().filter_map(|certificate| dates::of(certificate)) {
        if let Some(why) = judge(dates, now) {
            tracing::warn!("the certificate in {} {why}", file.display());
        }
    }
}

/// The fault of a certificate at a moment in Unix time, if it has one.
fn judge(dates: Dates, now: i64) -> Option<String> {
    const DAY: i64 = 86_400;
    let Dates { from, until } = dates;
    let advice = "replace the file, then run `highwater reload`";
    if now < from {
        return Some(
            "is not valid yet: this machine's clock is wrong, or the certificate's first day".into(),
        );
    }
    let days = |days: i64| format!("{days} day{}", if days == 1 { "" } else { "s" });
    match until - now {
        left if left >= SOON_DAYS * DAY => None,
        left if left >= 0 => Some(format!("runs out in {}: {advice}", days(left / DAY))),
        left => {
            Some(format!("ran out {} ago, and nobody who calls believes it: {advice}", days(-left / DAY)))
        }
    }
}

fn read(file: &Path, what: &str) -> Result<Vec<u8>, String> {
    let shown = file.display();
    let bytes = fs::read(file).map_err(|error| format!("cannot read {what} from {shown}: {error}"))?;
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err(format!("{shown} is UTF-16: save it as plain text, or UTF-8"));
    }
    if bytes.first() == Some(&0x30) && !bytes.starts_with(b"0\n") {
        return Err(format!(
            "{shown} is DER, and PEM is wanted: `openssl x509 -inform der` or `openssl pkey -inform der` converts it"
        ));
    }
    Ok(bytes.strip_prefix(BOM).map(<[u8]>::to_vec).unwrap_or(bytes))
}

fn explain(file: &Path, bytes: &[u8], reasons: &[(&str, &str)]) -> Option<String> {
    let (_, why) = reasons.iter().find(|(sign, _)| contains(bytes, sign.as_bytes()))?;
    Some(format!("{} {why}", file.display()))
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), content).unwrap();
        file
    }

    /// Once: `no items found` of a key under a passphrase, `UnsupportedCertVersion` of one's own certificate as *a
    /// peer's*.
    #[test]
    fn files_that_are_no_good_are_refused_in_plain_words() {
        let certificate = |content: &str| own_certificates(file(content.as_bytes()).path()).unwrap_err();
        let key = |content: &str| private_key(file(content.as_bytes()).path()).unwrap_err();
        let (plain, plain_key) = (include_str!("tests/plain.crt"), include_str!("tests/plain.key"));
        for (why, wanted) in [
            (certificate(include_str!("tests/version-1.crt")), "certificate of version 1"),
            (certificate(include_str!("tests/p521.crt")), "curve P-521"),
            (certificate(include_str!("tests/trusted.crt")), "TRUSTED CERTIFICATE"),
            (certificate(plain_key), "holds a key, and no certificate"),
            (certificate(""), "holds no certificate"),
            (
                certificate("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"),
                "no authority has signed",
            ),
            (certificate("0\u{2}"), "is DER"),
            (key(include_str!("tests/p521.key")), "curve P-521"),
            (key(include_str!("tests/encrypted.key")), "a passphrase protects"),
            (key(include_str!("tests/encrypted-old.key")), "a passphrase protects"),
            (key(plain), "holds a certificate, and no key"),
            (key(""), "cannot read a private key"),
        ] {
            assert!(why.contains(wanted) && !why.contains("Other("), "{why}");
        }
        let utf_16: Vec<u8> =
            [0xff, 0xfe].into_iter().chain(plain.bytes().flat_map(|byte| [byte, 0])).collect();
        assert!(certificates(file(&utf_16).path()).unwrap_err().contains("UTF-16"));
    }

    #[test]
    fn a_byte_order_mark_is_passed_over() {
        let with = |content: &str| file(&[BOM, content.as_bytes()].concat());
        assert_eq!(own_certificates(with(include_str!("tests/plain.crt")).path()).unwrap().len(), 1);
        private_key(with(include_str!("tests/plain.key")).path()).unwrap();
        // An authority may be of version 1: it is believed for itself.
        assert_eq!(authorities(with(include_str!("tests/version-1.crt")).path()).unwrap().len(), 1);
    }

    #[test]
    fn certificates_that_run_out_are_warned_of() {
        let chain = certificates(file(include_bytes!("tests/plain.crt")).path()).unwrap();
        let dates = dates::of(&chain[0]).unwrap();
        let day = 86_400;
        let said = |at: i64| judge(dates, at).unwrap_or_default();
        assert_eq!(said(dates.from), "");
        assert_eq!(said(dates.until - 14 * day), "");
        assert!(said(dates.until - 14 * day + 1).starts_with("runs out in 13 days: "));
        assert!(said(dates.until).starts_with("runs out in 0 days: "));
        assert!(said(dates.until + 1).starts_with("ran out 0 days ago"));
        assert!(said(dates.until + day).starts_with("ran out 1 day ago"));
        assert!(said(dates.until + 3 * day).starts_with("ran out 3 days ago"));
        assert!(said(dates.from - 1).starts_with("is not valid yet"));
    }
}
