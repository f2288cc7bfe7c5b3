//! What the store answers: objects, conditions, ranges, uploads in parts, listings in pages.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::http::{Answer, Request};
use super::{Held, KEY, Object};

/// Parts but the last are not smaller.
const LEAST_PART: usize = 5 << 20;

pub fn answer(held: &mut Held, request: &Request) -> Answer {
    let signed = request.header("authorization").unwrap_or_default();
    if !signed.contains(&format!("Credential={KEY}/")) {
        return Answer::error(403, "InvalidAccessKeyId");
    }
    let path = request.path.trim_start_matches('/');
    let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
    if bucket != "bucket" {
        return Answer::error(404, "NoSuchBucket");
    }
    let has = |name: &str| request.query.contains_key(name);
    match (request.method.as_str(), key) {
        ("GET", "") => list(held, request, bucket),
        ("POST", "") if has("delete") => delete_all(held, request, bucket),
        ("POST", _) if has("uploads") => begin(held),
        ("POST", _) if has("uploadId") => complete(held, request, path),
        ("PUT", _) if has("uploadId") => part(held, request),
        ("DELETE", _) if has("uploadId") => {
            held.uploads.remove(&request.query["uploadId"]);
            Answer::new(204, "")
        }
        ("PUT", _) => put(held, request, path),
        ("GET" | "HEAD", _) => get(held, request, path),
        ("DELETE", _) => {
            held.objects.remove(path);
            Answer::new(204, "")
        }
        _ => Answer::error(501, "NotImplemented"),
    }
}

fn write(held: &mut Held, path: &str, bytes: Vec<u8>) -> String {
    held.versions += 1;
    let tag = format!("\"{:032x}\"", held.versions);
    held.objects.insert(path.into(), Object { bytes: Arc::new(bytes), tag: tag.clone() });
    tag
}

fn put(held: &mut Held, request: &Request, path: &str) -> Answer {
    let found = held.objects.get(path).map(|object| object.tag.clone());
    if !held.careless {
        if request.header("if-none-match") == Some("*") && found.is_some() {
            return Answer::error(412, "PreconditionFailed");
        }
        match (request.header("if-match"), found) {
            (Some(_), None) => return Answer::error(404, "NoSuchKey"),
            (Some(wanted), Some(found)) if wanted != found => {
                return Answer::error(412, "PreconditionFailed");
            }
            _ => {}
        }
    }
    let tag = write(held, path, request.body.clone());
    Answer::new(200, "").with("etag", tag)
}

fn get(held: &Held, request: &Request, path: &str) -> Answer {
    let Some(object) = held.objects.get(path) else { return Answer::error(404, "NoSuchKey") };
    let len = object.bytes.len();
    let range = request.header("range").and_then(|range| range.strip_prefix("bytes="));
    let (from, to) = match range.and_then(|range| range.split_once('-')) {
        Some((from, to)) => (from.parse().unwrap(), to.parse::<usize>().map_or(len, |to| (to + 1).min(len))),
        None => (0, len),
    };
    if from > to {
        return Answer::error(416, "InvalidRange");
    }
    let status = if range.is_some() { 206 } else { 200 };
    let body = if request.method == "HEAD" { Vec::new() } else { object.bytes[from..to].to_vec() };
    let mut answer = Answer::new(status, body)
        .with("etag", object.tag.clone())
        .with("last-modified", "Mon, 23 Nov 2026 10:00:00 GMT");
    if range.is_some() {
        answer = answer.with("content-range", format!("bytes {from}-{}/{len}", to.saturating_sub(1)));
    }
    answer.len = to - from;
    answer
}

fn begin(held: &mut Held) -> Answer {
    held.versions += 1;
    let id = format!("upload-{}", held.versions);
    held.uploads.insert(id.clone(), Default::default());
    Answer::new(
        200,
        format!("<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"),
    )
}

fn part(held: &mut Held, request: &Request) -> Answer {
    let number = request.query["partNumber"].parse().unwrap();
    let Some(parts) = held.uploads.get_mut(&request.query["uploadId"]) else {
        return Answer::error(404, "NoSuchUpload");
    };
    parts.insert(number, Arc::new(request.body.clone()));
    Answer::new(200, "").with("etag", format!("\"part-{number}\""))
}

fn complete(held: &mut Held, request: &Request, path: &str) -> Answer {
    let Some(parts) = held.uploads.remove(&request.query["uploadId"]) else {
        return Answer::error(404, "NoSuchUpload");
    };
    let small = parts.values().rev().skip(1).any(|part| part.len() < LEAST_PART);
    let named = String::from_utf8_lossy(&request.body).matches("<PartNumber>").count();
    if small || named != parts.len() {
        return Answer::error(400, "InvalidPart");
    }
    let bytes = parts.values().flat_map(|part| part.iter().copied()).collect();
    let tag = write(held, path, bytes);
    Answer::new(
        200,
        format!("<CompleteMultipartUploadResult><ETag>{tag}</ETag></CompleteMultipartUploadResult>"),
    )
}

fn delete_all(held: &mut Held, request: &Request, bucket: &str) -> Answer {
    let body = String::from_utf8_lossy(&request.body).into_owned();
    let mut text = String::from("<DeleteResult>");
    for key in body.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next()) {
        held.objects.remove(&format!("{bucket}/{key}"));
        text.push_str(&format!("<Deleted><Key>{key}</Key></Deleted>"));
    }
    Answer::new(200, text + "</DeleteResult>")
}

/// ListObjectsV2: a page of keys and common prefixes, in order.
fn list(held: &Held, request: &Request, bucket: &str) -> Answer {
    let query = |name: &str| request.query.get(name).cloned().unwrap_or_default();
    let (prefix, delimiter) = (query("prefix"), query("delimiter"));
    let behind = if query("continuation-token").is_empty() {
        query("start-after")
    } else {
        query("continuation-token")
    };
    let mut shown = BTreeSet::new();
    let mut text = String::new();
    let mut more = None;
    for (path, object) in &held.objects {
        let Some(key) = path.strip_prefix(&format!("{bucket}/")).filter(|key| key.starts_with(&prefix))
        else {
            continue;
        };
        let rest = &key[prefix.len()..];
        let folder = (!delimiter.is_empty()).then(|| rest.split_once(&delimiter)).flatten();
        let name = folder.map_or(key.to_string(), |(folder, _)| format!("{prefix}{folder}{delimiter}"));
        if name <= behind || shown.contains(&name) {
            continue;
        }
        if shown.len() == held.page {
            more = shown.last().cloned();
            break;
        }
        text.push_str(&match folder {
            Some(_) => format!("<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>"),
            None => format!(
                "<Contents><Key>{key}</Key><LastModified>2026-11-23T10:00:00.000Z</LastModified><ETag>{}</ETag><Size>{}</Size></Contents>",
                object.tag,
                object.bytes.len()
            ),
        });
        shown.insert(name);
    }
    let next = more
        .as_ref()
        .map_or(String::new(), |key| format!("<NextContinuationToken>{key}</NextContinuationToken>"));
    let truncated = more.is_some();
    Answer::new(
        200,
        format!(
            "<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>{truncated}</IsTruncated>{next}{text}</ListBucketResult>"
        ),
    )
}
