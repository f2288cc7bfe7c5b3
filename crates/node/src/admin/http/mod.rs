//! HTTP/1.1 at the admin port, for browsers, Prometheus, load balancers and orchestrators.
//!
//! Sans-IO: [`request`] takes a head from bytes, [`guard`] says who is let in, [`response`] makes bytes of an answer; what is
//! asked for is a [`page`], and [`answers`] says what is on it. GET and HEAD change nothing. The one way to have something
//! done is `POST /v1/admin`, which no web page can send: it must carry a type that needs leave across origins, and no `Origin`.
//!
//! Left out: chunked bodies, ranges, compression, caching.

pub mod answers;
mod dashboard;
pub mod guard;
pub mod page;
pub mod request;
pub mod response;
#[cfg(test)]
mod tests;
