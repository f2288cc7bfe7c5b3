//! A wire between sockets, against a client that speaks TLS.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, ServerConfig, SignatureScheme, StreamOwned,
};

use super::Wire;
use super::pem::{certificates, private_key};

/// Believes everybody: what is tried here is the way of the bytes.
#[derive(Debug)]
struct Trusting;

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// A certificate of nobody, and its key.
fn own_keys() -> Arc<ServerConfig> {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("a.crt"), folder.path().join("a.key"));
    std::fs::write(&certificate, include_str!("tests/nobody.crt")).unwrap();
    std::fs::write(&key, include_str!("tests/nobody.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_no_client_auth();
    Arc::new(
        builder.with_single_cert(certificates(&certificate).unwrap(), private_key(&key).unwrap()).unwrap(),
    )
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    server.set_nonblocking(true).unwrap();
    (client, server)
}

fn encrypted(stream: TcpStream) -> StreamOwned<ClientConnection, TcpStream> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config =
        config.dangerous().with_custom_certificate_verifier(Arc::new(Trusting)).with_no_client_auth();
    let name = ServerName::try_from("nobody").unwrap();
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream)
}

/// Waits until the socket has something, or takes something.
fn wait(wire: &Wire) {
    use crate::poll::{Interest, Poller};
    let mut poller = Poller::new().unwrap();
    poller.add(wire, 0, Interest::of(true, wire.has_unsent())).unwrap();
    poller.wait(Some(10_000_000_000)).unwrap();
}

/// Reads with a buffer of this size and writes back, until the other side ends.
fn echo(wire: &mut Wire, size: usize) -> usize {
    let (mut buffer, mut waiting, mut total, mut ended) = (vec![0; size], Vec::new(), 0, false);
    while !ended || !waiting.is_empty() || wire.has_unsent() {
        let mut moved = wire.send().unwrap();
        while !ended && waiting.len() < 1 << 20 {
            match wire.read(&mut buffer) {
                Ok(0) => ended = true,
                Ok(count) => {
                    waiting.extend_from_slice(&buffer[..count]);
                    total += count;
                    moved = true;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(!wire.has_unread() || waiting.len() >= 1 << 20, "what is decrypted is taken");
        while !waiting.is_empty() {
            match wire.write(&waiting) {
                Ok(count) => {
                    waiting.drain(..count);
                    moved = true;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        if !(moved || ended && waiting.is_empty() && !wire.has_unsent()) {
            wait(wire);
        }
    }
    total
}

#[test]
fn bytes_of_any_number_come_through_and_back() {
    for (len, size) in
        [(1, 64 << 10), (16 << 10, 4 << 10), (16 << 10 | 1, 64 << 10), (5 << 20, 64 << 10), (300_000, 7)]
    {
        let (client, server) = pair();
        let caller = thread::spawn(move || {
            let bytes: Vec<u8> = (0..len).map(|at: usize| (at * 31 % 251) as u8).collect();
            let mut stream = encrypted(client);
            let mut back = Vec::new();
            // In pieces, so that neither side waits for the other to read.
            for piece in bytes.chunks(64 << 10) {
                stream.write_all(piece).unwrap();
                stream.flush().unwrap();
                let mut part = vec![0; piece.len()];
                stream.read_exact(&mut part).unwrap();
                back.extend_from_slice(&part);
            }
            stream.conn.send_close_notify();
            stream.flush().unwrap();
            assert_eq!(back, bytes);
        });
        let mut wire = Wire::accept(server, Some(own_keys())).unwrap();
        assert_eq!(echo(&mut wire, size), len);
        caller.join().unwrap();
    }
}

#[test]
fn who_does_not_speak_it_is_told_apart() {
    for words in [&b"*1\r\n$4\r\nPING\r\n"[..], b"\x16\x03\x01\xff\xff", b"GET / HTTP/1.1\r\n\r\n"] {
        let (mut client, server) = pair();
        let mut wire = Wire::accept(server, Some(own_keys())).unwrap();
        client.write_all(words).unwrap();
        wait(&wire);
        let error = wire.read(&mut [0; 100]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{words:?}: {error}");
        assert!(wire.broken().is_some());
    }
}

#[test]
fn half_a_handshake_waits_and_its_end_is_seen() {
    let (mut client, server) = pair();
    let mut wire = Wire::accept(server, Some(own_keys())).unwrap();
    client.write_all(&[0x16, 0x03, 0x01, 0x01, 0x00, 0x01]).unwrap();
    wait(&wire);
    assert_eq!(wire.read(&mut [0; 100]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    assert!(!wire.is_established() && wire.broken().is_none());
    assert_eq!(wire.write(b"too soon").unwrap_err().kind(), io::ErrorKind::WouldBlock);
    drop(client);
    wait(&wire);
    assert_eq!(wire.read(&mut [0; 100]).unwrap(), 0);
}

#[test]
fn without_keys_it_is_the_socket() {
    let (mut client, server) = pair();
    let mut wire = Wire::accept(server, None).unwrap();
    assert!(wire.is_established() && !wire.has_unsent() && !wire.has_unread());
    client.write_all(b"PING\r\n").unwrap();
    wait(&wire);
    let mut buffer = [0; 100];
    assert_eq!(wire.read(&mut buffer).unwrap(), 6);
    wire.write_all(b"+PONG\r\n").unwrap();
    wire.finish();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "+PONG\r\n");
}
