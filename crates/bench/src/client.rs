//! A minimal HTTP/1.1 client: it writes the same bytes again and reads answers with a content length.
//!
//! The load shares its cores with the service, so a library that does more than the measurement needs would be measured
//! too.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use domain::api_key::KeyText;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const END_OF_HEAD: &[u8] = b"\r\n\r\n";
/// An answer larger than this is not one of ours.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// A request as bytes on the wire.
pub(crate) fn post(path: &str, body: &str) -> Vec<u8> {
    post_with(path, "", body)
}

/// The same with an API key.
pub(crate) fn post_as(key: &KeyText, path: &str, body: &str) -> Vec<u8> {
    post_with(path, &format!("x-api-key: {}\r\n", key.expose()), body)
}

/// A call without a body, with an API key.
pub(crate) fn get_as(key: &KeyText, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nx-api-key: {}\r\n\r\n", key.expose()).into_bytes()
}

/// A call without a body, with a header of the caller's.
pub(crate) fn get_with(header: &str, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{header}\r\n\r\n").into_bytes()
}

fn post_with(path: &str, header: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n{header}\
         content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// A kept-alive connection.
pub(crate) struct Client {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, answer: Vec::with_capacity(16 * 1024) })
    }

    /// Sends a request and returns the body of the answer, which must be a 200.
    pub(crate) async fn send(&mut self, request: &[u8]) -> Result<&[u8]> {
        self.stream.write_all(request).await?;
        self.answer.clear();
        let body = loop {
            self.more().await?;
            // Answers usually come in one read, so the search is rarely repeated.
            if let Some(end) = find(&self.answer, END_OF_HEAD) {
                break end + END_OF_HEAD.len();
            }
        };
        let length = content_length(&self.answer[..body])?;
        while self.answer.len() < body + length {
            self.more().await?;
        }
        ensure!(self.answer.len() == body + length, "more came than was asked for");
        if !self.answer.starts_with(b"HTTP/1.1 200 ") {
            bail!("{}", String::from_utf8_lossy(&self.answer));
        }
        Ok(&self.answer[body..])
    }

    async fn more(&mut self) -> Result<()> {
        let read = self.stream.read_buf(&mut self.answer).await?;
        ensure!(read > 0, "the connection was closed before the answer was whole");
        ensure!(self.answer.len() <= MAX_BODY_BYTES, "the answer does not end");
        Ok(())
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

fn content_length(head: &[u8]) -> Result<usize> {
    let head = std::str::from_utf8(head)?;
    let values = head.lines().filter_map(|line| line.split_once(':'));
    let value = values.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let (_, value) = value.context("an answer without a length")?;
    value.trim().parse().context("an answer with an odd length")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_length_header_is_case_insensitive() {
        assert_eq!(content_length(b"HTTP/1.1 200 OK\r\nvary: origin\r\nContent-Length: 12\r\n\r\n").unwrap(), 12);
        assert!(content_length(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
    }

    #[test]
    fn a_request_states_its_length() {
        let request = String::from_utf8(post("/x", "{}")).unwrap();
        assert!(request.starts_with("POST /x HTTP/1.1\r\n") && request.ends_with("content-length: 2\r\n\r\n{}"));
    }
}
