//! What a store says, as errors of a place: with the kinds that an archive asks for, and what an operator can do.

use std::io;

use object_store::Error;

/// The error of a request.
pub fn error(error: Error) -> io::Error {
    let kind = match &error {
        // A bucket that is not there is no missing file.
        Error::NotFound { .. } if !is_bucket(&error.to_string()) => io::ErrorKind::NotFound,
        Error::AlreadyExists { .. } | Error::Precondition { .. } => io::ErrorKind::AlreadyExists,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, words(&error))
}

fn is_bucket(text: &str) -> bool {
    ["NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist"]
        .iter()
        .any(|words| text.contains(words))
}

/// What it means comes first, what was said follows.
pub fn words(error: &Error) -> String {
    let said = error.to_string();
    let meaning = match error {
        _ if is_bucket(&said) => "there is no such bucket: it has to be made first",
        // Where machines of a cloud ask for their credentials.
        _ if said.contains("169.254.169.254") || said.contains("metadata.google.internal") => {
            "there are no credentials in the environment, and this machine has none of its own"
        }
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            "the store refuses these credentials"
        }
        Error::AlreadyExists { .. } | Error::Precondition { .. } => {
            "another process has written to this archive meanwhile: one at a time"
        }
        Error::Generic { .. } if said.contains("error sending request") => "the store cannot be reached",
        _ => return said,
    };
    format!("{meaning}: {said}")
}
